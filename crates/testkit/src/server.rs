//! A private server, of whatever program: how it starts, ends, stands still and starts again.

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

/// How long a start, a stop and a request may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What differs between servers of different programs.
pub trait Kind: Sized + Send + Sync {
    /// The signal by which an administrator ends it.
    const END: &'static str = "TERM";

    /// Returns what starts it, on whatever host.
    fn command(server: &Server<Self>) -> Command;

    /// Asks one that was just started whether it is ready, for no longer than is left.
    ///
    /// # Errors
    ///
    /// It is not; with what it answers.
    fn is_ready(server: &Server<Self>, process: &Process, left: Duration) -> Result<(), String>;

    /// Removes what a killed one leaves outside of its folder.
    fn clean_up(folder: &Path) {
        let _ = folder;
    }
}

/// A private server: in a folder of its own, on free ports of 127.0.0.1 or a host of a test's network, gone when
/// the last handle is. What goes wrong panics, with the server's log where that may help.
pub struct Server<K: Kind> {
    kind: K,
    ports: [u16; 2],
    names: AtomicU32,
    /// While it is up.
    process: Mutex<Option<Process>>,
    /// After the process, which is there.
    host: Option<Host>,
    /// After the process, whose files are in it.
    folder: TempDir,
}

impl<K: Kind> Server<K> {
    /// One that is down.
    pub(crate) fn down(kind: K, folder: TempDir) -> Self {
        let (host, ports, process, names) = Default::default();
        Self { kind, host, ports, process, names, folder }
    }

    /// The same with these ports, of a host if there is one.
    pub(crate) fn at(mut self, host: Option<Host>, ports: [u16; 2]) -> Self {
        (self.host, self.ports) = (host, ports);
        self
    }

    /// Starts one for the first time.
    pub(crate) fn start_new(mut self) -> Arc<Self> {
        start_on_free_ports(|deadline| {
            if self.host.is_none() {
                self.ports = free_ports();
            }
            self.start_by(deadline)
        });
        Arc::new(self)
    }

    /// Starts one that is down, and waits until it is ready.
    pub(crate) fn start_by(&self, deadline: Instant) -> Result<(), String> {
        self.spawn();
        self.wait_until_ready(deadline)
    }

    /// Starts one that is down, with the same files and on the same ports, and does not wait for it.
    pub fn spawn(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the server is up");
        *process = Some(Process::spawn(&self.command(), self.folder(), &self.log_file()));
    }

    /// Waits until it is ready. One that is not, by then, is ended.
    pub(crate) fn wait_until_ready(&self, deadline: Instant) -> Result<(), String> {
        let mut process = self.process();
        let up = process.as_mut().expect("the server is up");
        let ready = up.wait_until_ready(deadline, |process, left| K::is_ready(self, process, left));
        if ready.is_err() {
            *process = None;
        }
        ready
    }

    /// Starts one that was stopped or killed: with the same files, on the same ports.
    pub fn start_again(&self) {
        start_again(|deadline| self.start_by(deadline));
    }

    /// Ends it as an administrator would, and waits. A frozen one does not hear it.
    pub fn stop(&self) {
        let status = self.end(|process| process.signal(K::END));
        assert!(status.success(), "the server stopped with {status}\n{}", self.log());
    }

    /// Ends it and all its processes in the midst of whatever they do, and waits.
    pub fn kill(&self) {
        self.end(|process| process.signal_all("KILL"));
    }

    fn end(&self, how: impl FnOnce(&mut Process)) -> ExitStatus {
        let mut process = self.process().take().expect("the server is up");
        how(&mut process);
        let status = process.wait_until(Instant::now() + LIMIT);
        status.unwrap_or_else(|| panic!("the server survives its end\n{}", process.log()))
    }

    /// Lets it stand still: it takes connections and requests, and answers nothing.
    pub fn freeze(&self) {
        self.process().as_mut().expect("the server is up").signal_all("STOP");
    }

    /// Lets a frozen one go on.
    pub fn thaw(&self) {
        self.process().as_mut().expect("the server is up").signal_all("CONT");
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.address_of(self.ports[0])
    }

    /// Where it may listen for something else.
    pub fn second_address(&self) -> SocketAddr {
        self.address_of(self.ports[1])
    }

    fn address_of(&self, port: u16) -> SocketAddr {
        (self.host.as_ref().map_or(Ipv4Addr::LOCALHOST, Host::address), port).into()
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Where all its files are; what a test puts there goes with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it, over all its starts, said about itself.
    pub fn log(&self) -> String {
        read(&self.log_file())
    }

    pub(crate) fn kind(&self) -> &K {
        &self.kind
    }

    /// A number for the name of something on this server.
    pub fn next_number(&self) -> u32 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// What starts it on its host.
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

/// Starts servers on ports that are free now: between looking for one and using it, somebody else may come
/// by.
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

/// Starts a server again on ports that clients know: until the limit, while one is somebody else's, such as a
/// client's of another server. Processes of a server that was killed may still be ending, and PostgreSQL
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

/// Returns ports of 127.0.0.1 that nobody uses now.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let bound = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    bound.map(|one| one.local_addr().expect("it is bound").port())
}

/// Makes a temporary folder. The path of a socket in it has at most 107 bytes.
pub fn folder_for(socket: &str) -> TempDir {
    let builder = || tempfile::Builder::new().prefix("uidring-").to_owned();
    let folder = builder().tempdir().expect("a temporary folder");
    if folder.path().join(socket).as_os_str().len() <= 107 {
        return folder;
    }
    builder().tempdir_in("/tmp").expect("a folder in /tmp")
}

/// Returns the path of a program that is in these folders, if not in the PATH; else panics, with the
/// packages that have it.
pub fn find(program: &str, folders: impl IntoIterator<Item = PathBuf>, packages: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).chain(folders).map(|folder| folder.join(program));
    all.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("no {program}, which these tests need: apt-get install {packages}")
    })
}

/// Returns what a file says, or why it cannot be read.
pub fn read(path: &Path) -> String {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("{}: {error}", path.display()),
    }
}
