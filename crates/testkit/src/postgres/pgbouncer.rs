//! A private PgBouncer in front of a private server, of Debian's package `pgbouncer`.

use std::fs;
use std::net::TcpStream;
use std::time::Instant;

use tempfile::TempDir;

use super::{Database, as_user, find, own_folder};
use crate::process::Process;
use crate::server::{LIMIT, free_port};

/// A pooler, which ends with its handle.
pub struct PgBouncer {
    port: u16,
    process: Process,
    folder: TempDir,
}

impl PgBouncer {
    /// A pooler in this mode (`transaction`, `session`, `statement`) that has so many connections to the
    /// server for a database and its user.
    pub fn start(database: &Database, mode: &str, connections: u32) -> Self {
        let (folder, port) = (own_folder(), free_port());
        let path = folder.path().display();
        let settings = format!(
            "[databases]
{} = host=127.0.0.1 port={}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
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
        fs::write(folder.path().join("settings.ini"), settings).expect("written");
        fs::write(folder.path().join("users"), users).expect("written");
        let mut command = as_user(&find("pgbouncer"));
        command.arg(folder.path().join("settings.ini"));
        let log = folder.path().join("log");
        let mut process = Process::spawn(&command, folder.path(), &log);
        let connect = || TcpStream::connect(("127.0.0.1", port)).map(drop);
        process
            .wait_until_ready(Instant::now() + LIMIT, |_, _| {
                connect().map_err(|error| error.to_string())
            })
            .unwrap_or_else(|error| panic!("{error}"));
        Self { port, process, folder }
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it in the midst of whatever it does.
    pub fn kill(&mut self) {
        self.process.signal("KILL");
        assert!(self.process.wait_until(Instant::now() + LIMIT).is_some(), "it ends");
    }

    /// What it said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}
