//! What processes share today: servers, and a file. All are private, in one folder.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use uidring_client::Client;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Servers of our own, which end with it.
pub struct Servers {
    _redis: Process,
    _uidring: Process,
    folder: TempDir,
}

/// The sockets, and the file with a number.
pub struct Paths {
    pub redis: PathBuf,
    pub uidring: PathBuf,
    pub file: PathBuf,
}

struct Process(Child);

impl Servers {
    pub fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        command.arg("--dir").arg(folder.path());
        command.arg("--unixsocket").arg(folder.path().join("redis"));
        let redis =
            Process::start(&mut command, &folder.path().join("redis")).map_err(|error| {
                io::Error::other(format!(
                    "redis-server: {error}; get it with: scripts/install redis-server redis-server"
                ))
            })?;
        // Cargo builds it, and becomes it.
        let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        command.current_dir(ROOT).args(["run", "--locked", "--quiet", "--release"]);
        command.args(["-p", "uidring-cli", "--no-default-features", "--features", "server", "--"]);
        command.args(["-q", "serve", "-u", "worker:1", "--max-borrow", "876000h", "--no-segments"]);
        command.args(["--redis", "none", "--http", "none", "--thrift", "none", "--batch"]);
        command.arg(folder.path().join("uidring"));
        let uidring = Process::start(&mut command, &folder.path().join("uidring"))
            .map_err(|error| io::Error::other(format!("uidring serve: {error}")))?;
        let servers = Self { _redis: redis, _uidring: uidring, folder };
        File::create(servers.paths().file)?.set_len(8)?;
        Ok(servers)
    }

    pub fn paths(&self) -> Paths {
        let path = |name| self.folder.path().join(name);
        Paths { redis: path("redis"), uidring: path("uidring"), file: path("counter") }
    }
}

impl Process {
    /// Starts it, and waits until it listens.
    fn start(command: &mut Command, socket: &Path) -> io::Result<Self> {
        let mut process = Self(command.stdout(Stdio::null()).spawn()?);
        while UnixStream::connect(socket).is_err() {
            if let Some(status) = process.0.try_wait()? {
                return Err(io::Error::other(status.to_string()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a command to Redis, and returns the number that it answers.
pub fn ask(mut redis: &UnixStream, command: &[u8]) -> u64 {
    redis.write_all(command).expect("Redis reads");
    let (mut answer, mut length) = ([0; 32], 0);
    while !answer[..length].ends_with(b"\r\n") {
        let count = redis.read(&mut answer[length..]).expect("Redis answers");
        assert_ne!(count, 0, "Redis has ended");
        length += count;
    }
    let number = str::from_utf8(&answer[1..length - 2]).expect("an answer in ASCII");
    number.parse().expect("a number")
}

/// The next number from a file, under its lock: `flock(LOCK_EX)`.
pub fn count_up(file: &File) -> u64 {
    file.lock().expect("locked");
    let number = number_in(file) + 1;
    file.write_all_at(&number.to_ne_bytes(), 0).expect("written");
    file.unlock().expect("unlocked");
    number
}

pub fn number_in(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).expect("read");
    u64::from_ne_bytes(bytes)
}

pub fn connect(uidring: &Path) -> Client {
    Client::connect_unix(uidring).expect("the server listens")
}
