//! A private PostgreSQL server, of Debian's package `postgresql`: in a folder of its own, on a free port of
//! 127.0.0.1, gone when the last handle is.

mod database;
pub mod pgbouncer;
mod query;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::Config;

pub use self::database::Database;
pub use self::query::{Rows, query};
use crate::network::Network;
use crate::process::Process;
pub use crate::server::LIMIT;
use crate::server::{self, Slot, folder_for, free_port, read, shared, start_on_free_ports};

/// What every server is told, besides where its files are.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_permissions=0777",
    // In its folder: a server that is killed would leave it in /dev/shm.
    "dynamic_shared_memory_type=mmap",
    "shared_buffers=16MB",
    "max_connections=400",
    "logging_collector=off",
    "log_line_prefix=%u %m ",
    "log_error_verbosity=verbose",
    // Backends stay between tests, and their forks are what a start costs.
    "autovacuum=off",
];

/// Who gets in: the administrator by the socket, others by password, standbys without; also in networks of
/// tests.
const ACCESS: &str = "local all postgres trust
local all all scram-sha-256
host replication postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
host replication postgres 10.0.0.0/8 trust
host all all 10.0.0.0/8 scram-sha-256
";

/// The port of a server that has a host for itself.
const ALONE: u16 = 5432;

/// A host of a network that a test made.
#[derive(Clone)]
pub struct Host {
    pub network: Arc<Network>,
    pub number: usize,
}

/// A server. What goes wrong panics, with the server's log where that may help.
pub struct Postgres {
    settings: Vec<String>,
    host: Option<Host>,
    port: u16,
    process: Slot,
    databases: AtomicU32,
    is_shared: AtomicBool,
    /// After the process, whose files are in it.
    folder: TempDir,
}

impl Postgres {
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    /// A server with more settings, `name=value`, which win over those that every server gets.
    pub fn start_with(settings: &[&str]) -> Arc<Self> {
        Self::start_on(None, settings)
    }

    /// A server on a host of a test's network.
    pub fn start_on(host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let folder = own_folder();
        let data = folder.path().join("data");
        run(&folder, "initdb", |command| {
            command
                .arg("-D")
                .arg(&data)
                .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
                .args(["--no-sync", "--no-instructions"])
        });
        fs::write(data.join("pg_hba.conf"), ACCESS).expect("written");
        Self::start_in(folder, host, settings)
    }

    /// A standby of this server, with all that the server has now, which follows it from now on; it calls
    /// itself `standby`.
    pub fn standby(&self, settings: &[&str]) -> Arc<Self> {
        self.standby_on(None, settings)
    }

    /// A standby on a host of a test's network.
    pub fn standby_on(&self, host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let folder = own_folder();
        let primary = format!(
            "host={} port={} user=postgres application_name=standby",
            self.address(),
            self.port
        );
        run(&folder, "pg_basebackup", |command| {
            command
                .args(["-d", &primary, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
                .arg(folder.path().join("data"))
        });
        Self::start_in(folder, host, settings)
    }

    fn start_in(folder: TempDir, host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let mut server = Self {
            folder,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            host,
            port: 0,
            process: Slot::default(),
            databases: AtomicU32::new(0),
            is_shared: AtomicBool::new(false),
        };
        let process = start_on_free_ports(|deadline| {
            server.port = if server.host.is_some() { ALONE } else { free_port() };
            server.launch(deadline)
        });
        server.process.start(|| Ok(process)).expect("it is up");
        Arc::new(server)
    }

    /// The server that this binary's tests share. It ends with the process. Its settings are
    /// not to be changed: other tests run at the same time.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Option<Arc<Postgres>>> = Mutex::new(None);
        shared(&SHARED, || {
            let server = Self::start();
            server.is_shared.store(true, Ordering::Relaxed);
            server
        })
    }

    /// Executes statements as the administrator, through the socket.
    pub fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// The rows of the administrator's query, as texts.
    pub fn query(&self, sql: &str) -> Rows {
        let is_shared = self.is_shared.load(Ordering::Relaxed);
        assert!(!is_shared || !sql.contains("SYSTEM"), "{sql}: of a server that other tests use");
        query(&self.administrator("postgres"), LIMIT, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Changes a setting of the server, and waits until all of it knows.
    pub fn set(&self, name: &str, value: &str) {
        self.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.execute("SELECT pg_reload_conf()");
        thread::sleep(Duration::from_millis(200));
    }

    /// Makes a primary of a standby, and waits until it takes rows.
    pub fn promote(&self) {
        self.execute("SELECT pg_promote()");
    }

    /// Where clients reach it.
    pub fn address(&self) -> IpAddr {
        let on_network = |host: &Host| host.network.address(host.number).into();
        self.host.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), on_network)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the server's socket.
    pub fn socket(&self) -> &Path {
        self.folder.path()
    }

    /// Where all the server's files are; what a test puts there goes with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets the server own a file that a test has put into its folder.
    pub fn own(&self, path: &Path) {
        give(path);
    }

    /// Replaces the lines that say who gets in.
    pub fn let_in(&self, lines: &str) {
        fs::write(self.folder().join("data/pg_hba.conf"), lines).expect("written");
        self.execute("SELECT pg_reload_conf()");
        thread::sleep(Duration::from_millis(200));
    }

    /// Ends the server as an administrator would, and waits. A frozen one does not hear it.
    pub fn stop(&self) {
        let status = self.process.stop("INT");
        assert!(status.success(), "the server stopped with {status}\n{}", self.error_log());
    }

    /// Ends the server and all its processes in the midst of whatever they do, and waits.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts a server that was stopped or killed: with the same files, on the same port.
    pub fn start_again(&self) {
        self.process.start_again(|deadline| self.launch(deadline));
    }

    /// Lets the server stand still: it takes connections and statements, and answers nothing.
    pub fn freeze(&self) {
        self.process.signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// From now on, all statements of users are noted.
    pub fn log_statements(&self) {
        self.set("log_statement", "all");
    }

    /// What the server, over all its starts, said about itself, with the statements.
    pub fn error_log(&self) -> String {
        read(&self.log())
    }

    /// Starts the server and waits until it answers.
    fn launch(&self, deadline: Instant) -> Result<Process, String> {
        let data = self.folder().join("data");
        // A server that was killed has left it, and its number may be another's by now.
        let _ = fs::remove_file(data.join("postmaster.pid"));
        let mut command = as_user(&find("postgres"));
        command.arg("-D").arg(&data).arg("-p").arg(self.port.to_string());
        command.arg("-k").arg(self.folder());
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(|text| &**text)) {
            command.arg("-c").arg(setting);
        }
        if let Some(Host { network, number }) = &self.host {
            command.arg("-c").arg(format!("listen_addresses={}", self.address()));
            let inside = command;
            command = network.command(*number);
            command.arg(inside.get_program()).args(inside.get_args());
        }
        let mut process = Process::spawn(&command, self.folder(), &self.log());
        process.wait_until_ready(deadline, |_, left| {
            query(&self.administrator("postgres"), left, "SELECT 1").map(drop)
        })?;
        Ok(process)
    }

    fn log(&self) -> PathBuf {
        self.folder().join("error.log")
    }

    fn administrator(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.user("postgres").dbname(database).host_path(self.socket()).port(self.port);
        config
    }
}

/// A server that is killed leaves its shared memory behind, whose id is the last word of line 7.
impl Drop for Postgres {
    fn drop(&mut self) {
        let known =
            fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        if let Some(id) = known.lines().nth(6).and_then(|line| line.rsplit(' ').next()) {
            // It goes as soon as the last process is done with it. One that ended in order has removed it.
            let _ = Command::new("ipcrm").args(["-m", id]).stderr(Stdio::null()).status();
        }
    }
}

/// Whom the server runs as, since it refuses to be root.
fn user() -> Option<(u32, u32)> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let number = |flag: &str| {
        let output = Command::new("id").args([flag, "postgres"]).output().expect("id starts");
        let text = String::from_utf8_lossy(&output.stdout).trim().parse();
        text.expect("the package postgresql has made a user of that name")
    };
    is_root.then(|| (number("-u"), number("-g")))
}

/// A command that runs as that user.
pub(crate) fn as_user(program: &Path) -> Command {
    let Some((user, group)) = user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups", "--"])
        .arg(program);
    command
}

fn give(path: &Path) {
    if let Some((user, group)) = user() {
        chown(path, Some(user), Some(group)).expect("given");
    }
}

/// A temporary folder of that user's.
pub(crate) fn own_folder() -> TempDir {
    let folder = folder_for(".s.PGSQL.65535.lock");
    give(folder.path());
    folder
}

fn run(folder: &TempDir, program: &str, with: impl FnOnce(&mut Command) -> &mut Command) {
    let mut command = as_user(&find(program));
    let output = with(&mut command).current_dir(folder.path()).stdin(Stdio::null()).output();
    let output = output.expect("setpriv, of util-linux, starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{program} failed\n{stdout}\n{stderr}");
}

/// The path of a program, which users' PATHs often do not lead to.
pub(crate) fn find(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    server::find(program, versions.chain(["/usr/sbin".into()]), "postgresql pgbouncer")
}
