//! A private MariaDB server, of Debian's packages `mariadb-server-core` and `mariadb-client-core`:
//! in a folder of its own, on a free port of 127.0.0.1, gone when the last handle is.

mod database;
mod galera;
mod query;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::OptsBuilder;
use mysql_async::prelude::FromRow;
use tempfile::TempDir;

pub use self::database::Database;
pub use self::galera::Galera;
use self::query::query;
use crate::process::Process;
use crate::server::{self, LIMIT, Slot, folder_for, free_port, read, shared, start_on_free_ports};

/// What every server is told, besides where its files are. The log is written at each commit but
/// not synced, so that what was committed outlives the server, though not the computer. It says of
/// itself that it is synced, as a server should.
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

/// Settings that the files are made with, so that a start finds nothing to change. Native
/// asynchronous I/O is scarce, or forbidden, in containers.
const FILE_SETTINGS: &[&str] = &["--innodb-log-file-size=4M", "--innodb-use-native-aio=OFF"];

/// A server. What goes wrong panics, with the server's log where that may help.
pub struct MariaDb {
    /// What begins the command, as to run it on another host.
    runner: Vec<String>,
    arguments: Mutex<Vec<String>>,
    port: u16,
    process: Slot,
    databases: AtomicU32,
    is_shared: AtomicBool,
    /// After the process, whose files are in it.
    folder: TempDir,
}

impl MariaDb {
    pub fn start() -> Arc<Self> {
        Self::start_with(&[])
    }

    /// A server with more arguments, which win over those that every server gets.
    pub fn start_with(arguments: &[&str]) -> Arc<Self> {
        let mut server = Self::without_files();
        server.set_arguments(arguments.iter().map(|&argument| argument.to_owned()).collect());
        server.make_files();
        let process = start_on_free_ports(|deadline| {
            server.port = free_port();
            server.launch(deadline)
        });
        server.process.start(|| Ok(process)).expect("it is up");
        Arc::new(server)
    }

    /// The server that this binary's tests share. It ends with the process. Its settings are
    /// not to be changed: other tests run at the same time.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Option<Arc<MariaDb>>> = Mutex::new(None);
        shared(&SHARED, || {
            let server = Self::start();
            server.is_shared.store(true, Ordering::Relaxed);
            server
        })
    }

    /// Executes a statement as the administrator, through the socket.
    pub fn execute(&self, sql: &str) {
        self.query::<mysql_async::Row>(sql);
    }

    /// The rows of a query of the administrator's, such as `query::<u64>` or
    /// `query::<(u64, String)>`.
    pub fn query<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        let is_shared = self.is_shared.load(Ordering::Relaxed);
        assert!(!is_shared || !sql.contains("GLOBAL"), "{sql}: of a server that other tests use");
        query(self.administrator(), LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join("socket")
    }

    /// Where all the server's files are; what a test puts there goes with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the server as an administrator would, and waits. A frozen one does not hear it.
    pub fn stop(&self) {
        let status = self.process.stop("TERM");
        assert!(status.success(), "the server stopped with {status}\n{}", self.error_log());
    }

    /// Ends the server in the midst of whatever it does, and waits.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts a server that was stopped or killed: with the same files, on the same port.
    pub fn start_again(&self) {
        self.process.start_again(|deadline| self.launch(deadline));
    }

    fn start_within(&self, limit: Duration) -> Result<(), String> {
        self.process.start(|| self.launch(Instant::now() + limit))
    }

    /// Lets the server stand still: it takes connections and statements, and answers nothing.
    pub fn freeze(&self) {
        self.process.signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// From now on, until the server ends, all statements are noted.
    pub fn log_statements(&self) {
        self.execute("SET GLOBAL general_log = ON");
    }

    /// The general log: a line for each statement and connection, of the helpers here, too.
    pub fn statements(&self) -> String {
        read(&self.folder().join("statements.log"))
    }

    /// What the server, over all its starts, said about itself.
    pub fn error_log(&self) -> String {
        read(&self.log())
    }

    /// A server that is down.
    fn without_files() -> Self {
        Self {
            folder: folder_for("socket"),
            runner: Vec::new(),
            arguments: Mutex::default(),
            port: 0,
            process: Slot::default(),
            databases: AtomicU32::new(0),
            is_shared: AtomicBool::new(false),
        }
    }

    /// Sets the arguments of later starts.
    fn set_arguments(&self, arguments: Vec<String>) {
        *self.arguments.lock().unwrap_or_else(PoisonError::into_inner) = arguments;
    }

    /// Takes half a second, and much longer beside many others. Making a template to copy would not be
    /// worth it.
    fn make_files(&self) {
        let program = find("mariadb-install-db");
        find("my_print_defaults");
        let folder = self.folder().display();
        // Neither `--user`, with which the script changes the owners of installed files, nor a
        // look-up of this host's name, which containers fail.
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

    /// Starts the server and waits until it answers.
    fn launch(&self, deadline: Instant) -> Result<Process, String> {
        let command = self.command();
        let mut process = Process::spawn(&command, self.folder(), &self.log());
        process.wait_until_ready(deadline, |_, left| {
            query::<mysql_async::Row>(self.administrator(), left, "DO 1").map(drop)
        })?;
        Ok(process)
    }

    fn command(&self) -> Command {
        let folder = self.folder().display();
        let program = find("mariadbd");
        let mut command = match self.runner.split_first() {
            Some((runner, arguments)) => {
                let mut command = Command::new(runner);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        // Of a `tmpdir` that servers share, each one that starts deletes the others' tables.
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={folder}/data"))
            .arg(format!("--tmpdir={folder}"))
            .arg(format!("--general-log-file={folder}/statements.log"))
            .arg(format!("--socket={}", self.socket().display()))
            .arg(format!("--port={}", self.port))
            .args(SETTINGS)
            .args(FILE_SETTINGS);
        if fs::metadata(self.folder()).expect("it is there").uid() == 0 {
            command.arg("--user=root");
        }
        command.args(&*self.arguments.lock().unwrap_or_else(PoisonError::into_inner));
        command
    }

    fn log(&self) -> PathBuf {
        self.folder().join("error.log")
    }

    fn administrator(&self) -> OptsBuilder {
        let socket = self.socket();
        OptsBuilder::default().user(Some("root")).socket(socket.to_str())
    }
}

/// The path of a program, which users' PATHs often do not lead to.
fn find(program: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    server::find(program, folders, "mariadb-server-core mariadb-client-core")
}
