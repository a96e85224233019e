//! A private PgBouncer in front of a private server, from Debian's package `pgbouncer`.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::{Database, as_user, find, own_folder};
use crate::process::Process;
use crate::server::{Kind, Server};

pub type PgBouncer = Server<Pooler>;

/// The settings without the port.
pub struct Pooler(String);

impl PgBouncer {
    /// Starts a pooler in this mode (`transaction`, `session`, `statement`), with this many server connections for a
    /// database and its user.
    pub fn start(database: &Database, mode: &str, connections: u32) -> Arc<Self> {
        let folder = own_folder();
        let path = folder.path().display();
        let settings = format!(
            "[databases]
{} = host=127.0.0.1 port={}
[pgbouncer]
listen_addr = 127.0.0.1
unix_socket_dir =
auth_type = plain
auth_file = {path}/users
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 500
",
            database.name(),
            database.server().port()
        );
        let users = format!("\"{}\" \"{}\"\n", database.user(), database.password());
        fs::write(folder.path().join("users"), users).expect("written");
        Self::down(Pooler(settings), folder).start_new()
    }
}

impl Kind for Pooler {
    fn command(server: &PgBouncer) -> Command {
        let file = server.folder().join("settings.ini");
        let settings = format!("{}listen_port = {}\n", server.kind().0, server.port());
        fs::write(&file, settings).expect("written");
        let mut command = as_user(&find("pgbouncer"));
        command.arg(file);
        command
    }

    fn is_ready(server: &PgBouncer, _: &Process, _: Duration) -> Result<(), String> {
        let connected = TcpStream::connect(server.address());
        connected.map(drop).map_err(|error| error.to_string())
    }
}
