//! Child processes that tests kill, stop and continue.

use std::env;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A child process of a test, killed on drop.
pub struct Child {
    child: process::Child,
    /// Since when it is stopped.
    frozen: Option<SystemTime>,
    pauses: Vec<(SystemTime, SystemTime)>,
}

/// Returns the command that runs one test of this binary in a process of its own.
pub fn this_test(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

impl Child {
    pub fn spawn(command: &mut Command) -> Self {
        Self { child: command.spawn().expect("starts"), frozen: None, pauses: Vec::new() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes its stdout, if piped and not taken before.
    pub fn stdout(&mut self) -> Option<process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Takes its stdin, if piped and not taken before.
    pub fn stdin(&mut self) -> Option<process::ChildStdin> {
        self.child.stdin.take()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("ours").is_some()
    }

    /// Sends it a signal, unless it has ended. It is not waited for before that, so its pid cannot be another
    /// process's.
    pub fn signal(&mut self, name: &str) {
        if !self.has_ended() {
            let mut kill = Command::new("kill");
            kill.args([&format!("-{name}"), &self.id().to_string()]).stderr(Stdio::null());
            assert!(kill.status().is_ok_and(|status| status.success()), "kill -{name}");
        }
    }

    /// Stops it.
    pub fn freeze(&mut self) {
        if !self.has_ended() {
            self.frozen = Some(SystemTime::now());
            self.signal("STOP");
        }
    }

    /// Continues it.
    pub fn thaw(&mut self) {
        self.signal("CONT");
        self.end_pause();
    }

    /// Kills it and waits. Returns whether it was still running.
    pub fn kill(&mut self) -> bool {
        let was_there = !self.has_ended();
        // It may end by itself meanwhile.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end_pause();
        was_there
    }

    /// Returns when it was stopped, and until when.
    pub fn pauses(&self) -> &[(SystemTime, SystemTime)] {
        &self.pauses
    }

    /// Waits for its end. Returns `None` if the limit comes first.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        loop {
            let status = self.child.try_wait().expect("ours");
            if status.is_some() || begin.elapsed() > limit {
                return status;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn end_pause(&mut self) {
        if let Some(since) = self.frozen.take() {
            self.pauses.push((since, SystemTime::now()));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}
