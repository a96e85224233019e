//! What private servers have in common: programs and folders, free ports, and a process that may be down.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;

/// How long a start, a stop and a request may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A server's process, while it is up.
#[derive(Default)]
pub struct Slot(Mutex<Option<Process>>);

impl Slot {
    /// Starts a server that is down.
    pub fn start(&self, start: impl FnOnce() -> Result<Process, String>) -> Result<(), String> {
        let mut process = self.lock();
        assert!(process.is_none(), "the server is up");
        *process = Some(start()?);
        Ok(())
    }

    /// Starts a server that was stopped or killed, with the same files and on the same port; panics if it
    /// does not start within the [limit](LIMIT).
    #[cfg(any(feature = "mariadb", feature = "postgres", feature = "zookeeper"))]
    pub fn start_again(&self, start: impl FnMut(Instant) -> Result<Process, String>) {
        let mut process = self.lock();
        assert!(process.is_none(), "the server is up");
        *process = Some(start_again(start));
    }

    /// Waits until the server answers; see [`Process::wait_until_ready`].
    #[cfg(feature = "etcd")]
    pub fn wait_until_ready(
        &self,
        deadline: Instant,
        is_ready: impl FnMut(&Process, Duration) -> Result<(), String>,
    ) -> Result<(), String> {
        self.lock().as_mut().expect("the server is up").wait_until_ready(deadline, is_ready)
    }

    /// Sends the server alone a signal that ends it, and waits.
    #[cfg(any(feature = "mariadb", feature = "postgres"))]
    pub fn stop(&self, signal: &str) -> ExitStatus {
        let mut process = self.lock().take().expect("the server is up");
        process.signal(signal);
        wait(&mut process)
    }

    /// Ends the server and all its processes in the midst of whatever they do, and waits.
    pub fn kill(&self) {
        let mut process = self.lock().take().expect("the server is up");
        process.signal_all("KILL");
        wait(&mut process);
    }

    /// Sends the server and all its processes a signal: `STOP` lets it stand still, so that it takes connections
    /// and answers nothing; `CONT` lets it go on.
    pub fn signal(&self, name: &str) {
        self.lock().as_mut().expect("the server is up").signal_all(name);
    }

    /// Ends the server if it is up.
    #[cfg(feature = "etcd")]
    pub fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(process: &mut Process) -> ExitStatus {
    process
        .wait_until(Instant::now() + LIMIT)
        .unwrap_or_else(|| panic!("the server survives its end\n{}", process.log()))
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

/// Starts servers again on ports that clients know: until the limit, while one is somebody else's, such as a
/// client's of another server. Processes of a server that was killed may still be ending, and PostgreSQL
/// does not start beside them.
pub fn start_again<T>(mut start: impl FnMut(Instant) -> Result<T, String>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        match start(deadline) {
            Ok(started) => return started,
            Err(error) => {
                let in_use = ["ddress already in use", "is still in use"];
                let may_pass = in_use.iter().any(|text| error.contains(text));
                assert!(may_pass && Instant::now() < deadline, "{error}");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Returns the server that this binary's tests share. It ends with the process: see
/// [`Process`].
pub fn shared<T>(shared: &Mutex<Option<Arc<T>>>, start: impl FnOnce() -> Arc<T>) -> Arc<T> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(shared.get_or_insert_with(start))
}

/// Returns a port of 127.0.0.1 that nobody uses now.
#[cfg(any(feature = "mariadb", feature = "postgres", feature = "zookeeper"))]
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// Returns so many, none twice.
pub fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let bound: Vec<_> = (0..count).map(bind).collect();
    bound.iter().map(|one| one.local_addr().expect("it is bound").port()).collect()
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
