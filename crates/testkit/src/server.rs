//! A private server of any program: start, stop, freeze and restart.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::network::Host;
use crate::process::Process;

/// The limit of a start, a stop and a request.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What each program's servers do their own way.
pub trait Kind: Sized + Send + Sync {
    /// The signal with which an administrator ends it.
    const END: &'static str = "TERM";

    /// Returns the command that starts it, on any host.
    fn command(server: &Server<Self>) -> Command;

    /// Asks a server that was just started whether it is ready, within the time that is left.
    ///
    /// # Errors
    ///
    /// It is not ready; its answer says why.
    fn is_ready(server: &Server<Self>, process: &Process, left: Duration) -> Result<(), String>;

    /// Removes what a killed server leaves outside its folder.
    fn clean_up(folder: &Path) {
        let _ = folder;
    }
}

/// A private server with its own folder, on free ports of 127.0.0.1 or on a host of a test network. It ends with its
/// last handle. Failures panic, with the server's log where it may help.
pub struct Server<K: Kind> {
    kind: K,
    ports: [u16; 2],
    names: AtomicU32,
    /// Present while the server is up.
    process: Mutex<Option<Process>>,
    /// Dropped after the process, which is there.
    host: Option<Host>,
    /// Dropped after the process, whose files are in it.
    folder: TempDir,
}

impl<K: Kind> Server<K> {
    /// Creates a server that is not started.
    pub(crate) fn down(kind: K, folder: TempDir) -> Self {
        let (host, ports, process, names) = Default::default();
        Self { kind, host, ports, process, names, folder }
    }

    /// Sets the ports, and the host if there is one.
    pub(crate) fn at(mut self, host: Option<Host>, ports: [u16; 2]) -> Self {
        (self.host, self.ports) = (host, ports);
        self
    }

    pub(crate) fn start_new(mut self) -> Arc<Self> {
        start_on_free_ports(|deadline| {
            if self.host.is_none() {
                self.ports = free_ports();
            }
            self.start_by(deadline)
        });
        Arc::new(self)
    }

    /// Starts a server that is down, and waits until it is ready.
    pub(crate) fn start_by(&self, deadline: Instant) -> Result<(), String> {
        self.spawn();
        self.wait_until_ready(deadline)
    }

    /// Starts a server that is down, with its files and ports, and does not wait.
    pub fn spawn(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the server is up");
        *process = Some(Process::spawn(&self.command(), self.folder(), &self.log_file()));
    }

    /// Waits until it is ready. If it is not in time, ends it.
    pub(crate) fn wait_until_ready(&self, deadline: Instant) -> Result<(), String> {
        let mut process = self.process();
        let up = process.as_mut().expect("the server is up");
        let ready = up.wait_until_ready(deadline, |process, left| K::is_ready(self, process, left));
        if ready.is_err() {
            *process = None;
        }
        ready
    }

    /// Restarts a server that was stopped or killed, with its files and ports.
    pub fn start_again(&self) {
        start_again(|deadline| self.start_by(deadline));
    }

    /// Ends it as an administrator would, and waits. A frozen server does not react.
    pub fn stop(&self) {
        let status = self.end(|process| process.signal(K::END));
        assert!(status.success(), "the server stopped with {status}\n{}", self.log());
    }

    /// Kills it and all its processes, whatever they do, and waits.
    pub fn kill(&self) {
        self.end(|process| process.signal_all("KILL"));
    }

    fn end(&self, how: impl FnOnce(&mut Process)) -> ExitStatus {
        let mut process = self.process().take().expect("the server is up");
        how(&mut process);
        let status = process.wait_until(Instant::now() + LIMIT);
        status.unwrap_or_else(|| panic!("the server survives its end\n{}", process.log()))
    }

    /// Freezes it: it accepts connections and requests, but answers nothing.
    pub fn freeze(&self) {
        self.process().as_mut().expect("the server is up").signal_all("STOP");
    }

    pub fn thaw(&self) {
        self.process().as_mut().expect("the server is up").signal_all("CONT");
    }

    pub fn address(&self) -> SocketAddr {
        self.address_of(self.ports[0])
    }

    pub fn second_address(&self) -> SocketAddr {
        self.address_of(self.ports[1])
    }

    fn address_of(&self, port: u16) -> SocketAddr {
        (self.host.as_ref().map_or(Ipv4Addr::LOCALHOST, Host::address), port).into()
    }

    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Returns the folder of all its files. Files that a test puts there go with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its log, of all starts.
    pub fn log(&self) -> String {
        read(&self.log_file())
    }

    pub(crate) fn kind(&self) -> &K {
        &self.kind
    }

    /// Returns a new number, for a name on this server.
    pub fn next_number(&self) -> u32 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the command that starts it on its host.
    pub(crate) fn command(&self) -> Command {
        let command = K::command(self);
        self.host.as_ref().map(|host| host.runs(&command)).unwrap_or(command)
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kind> Drop for Server<K> {
    fn drop(&mut self) {
        K::clean_up(self.folder());
    }
}

/// Starts servers on ports that are free now. Another process may take one meanwhile, so it tries three times.
pub fn start_on_free_ports<T>(mut start: impl FnMut(Instant) -> Result<T, String>) -> T {
    let deadline = Instant::now() + LIMIT;
    let mut failure = String::new();
    for _ in 0..3 {
        match start(deadline) {
            Ok(started) => return started,
            Err(error) => failure = error,
        }
    }
    panic!("{failure}");
}

/// Restarts a server on the ports that its clients know. Retries until the limit while another process uses one, such
/// as a client of another server. It also retries while processes of a killed PostgreSQL are still ending, because it
/// does not start beside them.
fn start_again(start: impl Fn(Instant) -> Result<(), String>) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = start(deadline) {
        let in_use = ["ddress already in use", "is still in use"];
        let may_pass = in_use.iter().any(|text| error.contains(text));
        assert!(may_pass && Instant::now() < deadline, "{error}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns ports of 127.0.0.1 that are free now.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let bound = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    bound.map(|one| one.local_addr().expect("it is bound").port())
}

/// Creates a temporary folder. The path of a socket in it must fit in 107 bytes.
pub fn folder_for(socket: &str) -> TempDir {
    let builder = || tempfile::Builder::new().prefix("uidring-").to_owned();
    let folder = builder().tempdir().expect("a temporary folder");
    if folder.path().join(socket).as_os_str().len() <= 107 {
        return folder;
    }
    builder().tempdir_in("/tmp").expect("a folder in /tmp")
}

/// Returns the path of a program from PATH or these folders. Otherwise panics and names the packages to install.
pub fn find(program: &str, folders: impl IntoIterator<Item = PathBuf>, packages: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).chain(folders).map(|folder| folder.join(program));
    all.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("no {program}, which these tests need: apt-get install {packages}")
    })
}

/// Returns a file's text, or why it cannot be read.
pub fn read(path: &Path) -> String {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("{}: {error}", path.display()),
    }
}
