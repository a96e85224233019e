//! Private MariaDB servers from Debian's packages `mariadb-server-core` and `mariadb-client-core`.

mod database;
mod galera;
mod query;

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mysql_async::OptsBuilder;
use mysql_async::prelude::FromRow;

pub use self::database::Database;
pub use self::galera::Galera;
use self::query::query;
use crate::process::Process;
use crate::server::{self, Kind, LIMIT, Server, folder_for, read};

/// Settings of every server, besides paths. The log is written at each commit but not synced: a commit outlives the
/// server, but not the machine. The server still reports that it syncs, as a real one should.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=16M",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-buffer-pool-dump-at-shutdown=OFF",
];

/// Settings that the files are created with, so that a start has nothing to change. Containers often lack native
/// asynchronous I/O.
const FILE_SETTINGS: &[&str] = &["--innodb-log-file-size=4M", "--innodb-use-native-aio=OFF"];

pub type MariaDb = Server<Settings>;

/// Arguments of the next start. They override those of every server.
#[derive(Default)]
pub struct Settings(Mutex<Vec<String>>);

static SHARED: OnceLock<Arc<MariaDb>> = OnceLock::new();

impl MariaDb {
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Arc<Self> {
        let server = Self::without_files();
        server.set_arguments(arguments.iter().map(|&argument| argument.to_owned()).collect());
        server.make_files();
        server.start_new()
    }

    /// Returns the server that the tests of this binary share. It ends with the process. Do not change its settings:
    /// other tests run at the same time.
    pub fn shared() -> Arc<Self> {
        Arc::clone(SHARED.get_or_init(Self::start))
    }

    /// Executes a statement as the administrator, over the socket.
    pub fn execute(&self, sql: &str) {
        self.query::<mysql_async::Row>(sql);
    }

    /// Returns the rows of the administrator's query, such as `query::<u64>` or `query::<(u64, String)>`.
    pub fn query<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        let is_shared = SHARED.get().is_some_and(|shared| ptr::eq(&**shared, self));
        assert!(!is_shared || !sql.contains("GLOBAL"), "{sql}: of a server that other tests use");
        query(self.administrator(), LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join("socket")
    }

    /// Logs all statements from now on, until the server ends.
    pub fn log_statements(&self) {
        self.execute("SET GLOBAL general_log = ON");
    }

    /// Returns the general log: a line for each statement and connection, including those of these helpers.
    pub fn statements(&self) -> String {
        read(&self.folder().join("statements.log"))
    }

    fn without_files() -> Self {
        Self::down(Settings::default(), folder_for("socket"))
    }

    fn set_arguments(&self, arguments: Vec<String>) {
        *self.kind().0.lock().unwrap_or_else(PoisonError::into_inner) = arguments;
    }

    /// Takes half a second, or much longer on a busy machine. A template to copy would not be worth it.
    fn make_files(&self) {
        let program = find("mariadb-install-db");
        find("my_print_defaults");
        let folder = self.folder().display();
        // Without `--user`, which makes the script change the owners of installed files. `--force` skips the look-up of
        // this host's name, which fails in containers.
        let output = Command::new("timeout")
            .arg((4 * LIMIT).as_secs().to_string())
            .arg(program)
            .arg("--no-defaults")
            .arg(format!("--datadir={folder}/data"))
            .arg(format!("--tmpdir={folder}"))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"])
            .args(FILE_SETTINGS)
            .stdin(Stdio::null())
            .output()
            .expect("timeout, of coreutils, starts");
        let [stdout, stderr] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "mariadb-install-db failed\n{stdout}\n{stderr}");
    }

    fn administrator(&self) -> OptsBuilder {
        let socket = self.socket();
        OptsBuilder::default().user(Some("root")).socket(socket.to_str())
    }
}

impl Kind for Settings {
    fn command(server: &MariaDb) -> Command {
        let folder = server.folder().display();
        let path = env::var("PATH").unwrap_or_default();
        // In a shared `tmpdir`, a starting server would delete the others' tables. A cluster node finds its script in
        // the folder, which is in PATH.
        let mut command = Command::new("env");
        command
            .arg(format!("PATH={folder}:{path}"))
            .arg(find("mariadbd"))
            .arg("--no-defaults")
            .arg(format!("--datadir={folder}/data"))
            .arg(format!("--tmpdir={folder}"))
            .arg(format!("--general-log-file={folder}/statements.log"))
            .arg(format!("--socket={}", server.socket().display()))
            .arg(format!("--port={}", server.port()))
            .args(SETTINGS)
            .args(FILE_SETTINGS);
        if fs::metadata(server.folder()).expect("it is there").uid() == 0 {
            command.arg("--user=root");
        }
        command.args(&*server.kind().0.lock().unwrap_or_else(PoisonError::into_inner));
        command
    }

    fn is_ready(server: &MariaDb, _: &Process, left: Duration) -> Result<(), String> {
        query::<mysql_async::Row>(server.administrator(), left, "DO 1").map(drop)
    }
}

/// Returns the path of a program, which is often not in PATH.
fn find(program: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    server::find(program, folders, "mariadb-server-core mariadb-client-core")
}
