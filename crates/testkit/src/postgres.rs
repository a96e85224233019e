//! Private PostgreSQL servers from Debian's package `postgresql`.

mod database;
pub mod pgbouncer;
mod query;

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::Config;

pub use self::database::Database;
pub use self::query::{Rows, query};
use crate::network::Host;
use crate::process::Process;
pub use crate::server::LIMIT;
use crate::server::{self, Kind, Server, folder_for};

/// Settings of every server, besides paths.
const SETTINGS: &[&str] = &[
    "unix_socket_permissions=0777",
    // In the server's folder: a killed server would leave it in /dev/shm.
    "dynamic_shared_memory_type=mmap",
    "shared_buffers=16MB",
    "max_connections=400",
    "logging_collector=off",
    "log_line_prefix=%u %m ",
    "log_error_verbosity=verbose",
    // Off, because backends stay between tests.
    "autovacuum=off",
];

/// Who may log in: the administrator over the socket, others with a password, standbys without one. The same holds in
/// test networks.
const ACCESS: &str = "local all postgres trust
local all all scram-sha-256
host replication postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
host replication postgres 10.0.0.0/8 trust
host all all 10.0.0.0/8 scram-sha-256
";

/// The port of a server with its own host.
const ALONE: u16 = 5432;

pub type Postgres = Server<Settings>;

/// Settings as `name=value`. They override those of every server.
pub struct Settings(Vec<String>);

static SHARED: OnceLock<Arc<Postgres>> = OnceLock::new();

impl Postgres {
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    pub fn start_with(settings: &[&str]) -> Arc<Self> {
        Self::start_on(None, settings)
    }

    /// Starts a server on a host of a test network.
    pub fn start_on(host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let folder = own_folder();
        let data = folder.path().join("data");
        run(folder.path(), "initdb", |command| {
            command
                .arg("-D")
                .arg(&data)
                .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
                .args(["--no-sync", "--no-instructions"])
        });
        fs::write(data.join("pg_hba.conf"), ACCESS).expect("written");
        Self::start_in(folder, host, settings)
    }

    /// Starts a standby with a copy of this server. It follows under the name `standby`.
    pub fn standby(&self, settings: &[&str]) -> Arc<Self> {
        self.standby_on(None, settings)
    }

    /// Like [`standby`](Self::standby), on a host of a test network.
    pub fn standby_on(&self, host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let folder = own_folder();
        let primary = format!(
            "host={} port={} user=postgres application_name=standby",
            self.address().ip(),
            self.port()
        );
        run(folder.path(), "pg_basebackup", |command| {
            command
                .args(["-d", &primary, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
                .arg(folder.path().join("data"))
        });
        Self::start_in(folder, host, settings)
    }

    fn start_in(folder: TempDir, host: Option<Host>, settings: &[&str]) -> Arc<Self> {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::down(Settings(settings), folder).at(host, [ALONE, 0]).start_new()
    }

    /// Returns the server that the tests of this binary share. It ends with the process. Do not change its settings:
    /// other tests run at the same time.
    pub fn shared() -> Arc<Self> {
        Arc::clone(SHARED.get_or_init(Self::start))
    }

    /// Executes statements as the administrator, over the socket.
    pub fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// Returns the rows of the administrator's query, as texts.
    pub fn query(&self, sql: &str) -> Rows {
        let is_shared = SHARED.get().is_some_and(|shared| ptr::eq(&**shared, self));
        assert!(!is_shared || !sql.contains("SYSTEM"), "{sql}: of a server that other tests use");
        query(&self.administrator("postgres"), LIMIT, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Changes a setting, and waits 200 ms for all processes of the server to see it.
    pub fn set(&self, name: &str, value: &str) {
        self.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.execute("SELECT pg_reload_conf()");
        thread::sleep(Duration::from_millis(200));
    }

    /// Promotes a standby, and waits until it accepts writes.
    pub fn promote(&self) {
        self.execute("SELECT pg_promote()");
    }

    /// Returns the folder of the server's socket.
    pub fn socket(&self) -> &Path {
        self.folder()
    }

    /// Makes the server own a file in its folder.
    pub fn own(&self, path: &Path) {
        give(path);
    }

    /// Replaces the rules in `pg_hba.conf`.
    pub fn let_in(&self, lines: &str) {
        fs::write(self.folder().join("data/pg_hba.conf"), lines).expect("written");
        self.execute("SELECT pg_reload_conf()");
        thread::sleep(Duration::from_millis(200));
    }

    /// Logs all statements of users from now on.
    pub fn log_statements(&self) {
        self.set("log_statement", "all");
    }

    fn administrator(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.user("postgres").dbname(database).host_path(self.socket()).port(self.port());
        config
    }
}

impl Kind for Settings {
    const END: &'static str = "INT";

    fn command(server: &Postgres) -> Command {
        let mut command = as_user(&find("postgres"));
        command.arg("-D").arg(server.folder().join("data"));
        command.arg("-p").arg(server.port().to_string()).arg("-k").arg(server.folder());
        let address = format!("listen_addresses={}", server.address().ip());
        let own = server.kind().0.iter().map(|text| &**text);
        for setting in [&*address].iter().chain(SETTINGS).copied().chain(own) {
            command.arg("-c").arg(setting);
        }
        command
    }

    fn is_ready(server: &Postgres, _: &Process, left: Duration) -> Result<(), String> {
        query(&server.administrator("postgres"), left, "SELECT 1").map(drop)
    }

    /// Removes its shared memory, whose id is the last word of line 7.
    fn clean_up(folder: &Path) {
        let known = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
        if let Some(id) = known.lines().nth(6).and_then(|line| line.rsplit(' ').next()) {
            // The memory goes with the last process that uses it. After an orderly end it is already removed.
            let _ = Command::new("ipcrm").args(["-m", id]).stderr(Stdio::null()).status();
        }
    }
}

/// The user that the server runs as, because it refuses to run as root.
fn user() -> Option<(u32, u32)> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let number = |flag: &str| {
        let output = Command::new("id").args([flag, "postgres"]).output().expect("id starts");
        let text = String::from_utf8_lossy(&output.stdout).trim().parse();
        text.expect("the package postgresql has made a user of that name")
    };
    is_root.then(|| (number("-u"), number("-g")))
}

/// Returns a command that runs as that user.
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

/// Creates a temporary folder of that user.
pub(crate) fn own_folder() -> TempDir {
    let folder = folder_for(".s.PGSQL.65535.lock");
    give(folder.path());
    folder
}

fn run(folder: &Path, program: &str, with: impl FnOnce(&mut Command) -> &mut Command) {
    let mut command = as_user(&find(program));
    let output = with(&mut command).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("setpriv, of util-linux, starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{program} failed\n{stdout}\n{stderr}");
}

/// Returns the path of a program, which is often not in PATH.
pub(crate) fn find(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    server::find(program, versions.chain(["/usr/sbin".into()]), "postgresql pgbouncer")
}
