//! A server process that ends with the tests, however they end.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{panic, thread};

/// The logs of running servers.
static LOGS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How many lines of each log a panic's report shows.
const LAST_LINES: usize = 15;

/// Appends the last lines of the servers' logs to the report of every panic.
fn report_logs_with_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            report(panic);
            // The panicking thread may itself hold the lock.
            let Ok(logs) = LOGS.try_lock() else { return };
            for log in &*logs {
                let bytes = fs::read(log).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes);
                let lines: Vec<_> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
                eprintln!("the last lines of {}:\n    {}", log.display(), last.join("\n    "));
            }
        }));
    });
}

/// A running server, and the shell that watches it.
pub struct Process {
    /// Ends with the server, with its status. The server lives while the shell's stdin is open.
    shell: Child,
    server: String,
    log: PathBuf,
    /// The log's length before this start.
    log_before: usize,
}

impl Process {
    /// Starts the server, and kills it when stdin ends. The kernel closes stdin even if this process is killed; then
    /// the script also deletes the files. If the server is stopped at that time, the kernel sends SIGHUP to the group,
    /// which the script ignores.
    const SCRIPT: &str = r#"
        folder=$1
        shift
        # Of a PostgreSQL that was killed; its number may be another process's by now.
        rm -f "$folder/data/postmaster.pid"
        trap '' HUP
        exec 3<&0 </dev/null
        "$@" >&2 3<&- &
        server=$!
        echo "$server"
        { read -r _ <&3; trap '' TERM; kill -KILL "$server"; } &
        guard=$!
        exec 3<&- >&-
        wait "$server"
        status=$?
        kill -TERM "$guard"
        if wait "$guard"; then
            # PostgreSQL's shared memory, which stays when it is killed.
            memory=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid" 2>&-)
            [ -z "$memory" ] || ipcrm -m "$memory"
            rm -rf "$folder"
        fi
        exit "$status"
    "#;

    /// Starts a server with its files in this folder. Its output is appended to the log.
    pub fn spawn(command: &Command, folder: &Path, log: &Path) -> Self {
        report_logs_with_panics();
        let log_before = fs::metadata(log).map_or(0, |metadata| metadata.len() as usize);
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let mut shell = Command::new("sh")
            .args(["-c", Self::SCRIPT, "sh"])
            .arg(folder)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            // Ctrl-C ends the tests; the shell only sees its input end.
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        let mut server = String::new();
        let stdout = shell.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut server).expect("the shell writes");
        server.truncate(server.trim_end().len());
        assert!(server.parse::<u32>().is_ok(), "the shell names the server's pid");
        LOGS.lock().unwrap_or_else(PoisonError::into_inner).push(log.to_owned());
        Self { shell, server, log: log.to_owned(), log_before }
    }

    pub fn signal(&mut self, name: &str) {
        assert_eq!(self.wait_until(Instant::now()), None, "the server has ended by itself");
        assert!(self.send(name), "SIG{name} cannot be sent to the server");
        if name == "STOP" {
            wait_until_stopped(&self.server);
        }
    }

    /// Sends a signal to the server and its children. Stops the server first, so that it starts no more children
    /// meanwhile.
    pub fn signal_all(&mut self, name: &str) {
        assert_eq!(self.wait_until(Instant::now()), None, "the server has ended by itself");
        assert!(self.send_all(name), "SIG{name} cannot be sent to the server");
        if name == "STOP" {
            let children = format!("/proc/{0}/task/{0}/children", self.server);
            let children = fs::read_to_string(children).expect("the server is there");
            children.split_whitespace().chain([&*self.server]).for_each(wait_until_stopped);
        }
    }

    /// Returns what the server logged since this start.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_before..).unwrap_or_default()).into_owned()
    }

    /// Waits until the server answers. `is_ready` asks it, with the time that is left.
    ///
    /// # Errors
    ///
    /// The server ends, or does not answer in time. The error includes its log since this start.
    pub fn wait_until_ready(
        &mut self,
        deadline: Instant,
        mut is_ready: impl FnMut(&Self, Duration) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            if let Some(status) = self.wait_until(Instant::now()) {
                return Err(format!("the server ended with {status}\n{}", self.log()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match is_ready(self, left) {
                Ok(()) => return Ok(()),
                Err(error) if left.is_zero() => {
                    return Err(format!("the server does not answer: {error}\n{}", self.log()));
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Returns the server's status, or `None` if it still runs at the deadline.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            let status = self.shell.try_wait().expect("it is our child");
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The pid is still the server's: the shell has not waited for it yet.
    fn send(&self, signal: &str) -> bool {
        let sent = Command::new("sh")
            .args(["-c", r#"kill -"$1" "$2""#, "sh", signal, &self.server])
            .status();
        sent.is_ok_and(|status| status.success())
    }

    fn send_all(&self, signal: &str) -> bool {
        let script = r#"
            kill -STOP "$2" || exit
            # Some of them may end meanwhile.
            for child in $(cat "/proc/$2/task/$2/children"); do kill -"$1" "$child" 2>/dev/null; done
            kill -"$1" "$2"
        "#;
        let sent = Command::new("sh").args(["-c", script, "sh", signal, &self.server]).status();
        sent.is_ok_and(|status| status.success())
    }
}

/// Waits until no thread of a process runs. On a busy machine, a thread sees the signal only once it gets a processor.
fn wait_until_stopped(process: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_stopped = |task: fs::DirEntry| {
        // The state follows the name in parentheses. A missing thread has ended, and so has a zombie.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z']))
    };
    let tasks = format!("/proc/{process}/task");
    while !fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().all(is_stopped)) {
        // A child of the server may have ended.
        if !Path::new(&tasks).exists() {
            return;
        }
        assert!(Instant::now() < deadline, "process {process} of the server does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills the server's children too: stopped ones would not see that it has ended.
impl Drop for Process {
    fn drop(&mut self) {
        let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = logs.iter().position(|log| *log == self.log) {
            logs.swap_remove(place);
        }
        drop(logs);
        if self.wait_until(Instant::now()).is_none() {
            self.send_all("KILL");
            self.wait_until(Instant::now() + Duration::from_secs(10));
        }
    }
}
