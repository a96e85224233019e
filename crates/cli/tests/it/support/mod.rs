//! Runs the program in its own home.

#[cfg(target_os = "linux")]
pub mod elsewhen;
#[cfg(feature = "mysql")]
pub mod program;

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use tempfile::TempDir;

/// Variables that would give the program a store or an identity, or that it refuses.
const IDENTITY: &[&str] = &[
    "UIDRING_URL",
    "UIDRING_WORKER_ID",
    "UIDRING_ORDINAL",
    "HOSTNAME",
    "UIDRING_MYSQL_URL",
    "UIDRING_POSTGRES_URL",
    "UIDRING_ETCD",
    "UIDRING_ETCD_AUTH",
    "UIDRING_INSTANCE",
    "UIDRING_ZOOKEEPER_AUTH",
    "UIDRING_HOST",
    "UIDRING_PORT",
    "JPAAS_HOST",
    "JPAAS_HTTP_PORT",
    "JPAAS_HOST_PORT_8080",
];

/// A folder that is home, data directory and current directory at once. It is removed after the test.
pub struct Home {
    pub folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Returns the program with these arguments, separated by spaces.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uidring"));
        command
            .args(words.split_whitespace())
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.folder.path())
            .env("UIDRING_CONTAINER", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for variable in IDENTITY {
            command.env_remove(variable);
        }
        end_when_told(&mut command);
        command
    }

    /// Returns the program under a shell script that prepares its start; `$1` is the program.
    pub fn under_sh(&self, script: &str) -> Command {
        let program = self.command("");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(program.get_program());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Writes a URL into the file, which nobody else may read: its password would be a warning.
    pub fn write_url(&self, name: &str, url: &str) {
        let path = self.folder.path().join(name);
        std::fs::write(&path, url).expect("writes");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, mode).expect("ours");
        }
    }

    pub fn run(&self, words: &str) -> Run {
        Run::of(&mut self.command(words))
    }

    /// Returns what the program prints, which must succeed with nothing on stderr.
    pub fn stdout(&self, words: &str) -> String {
        let run = self.run(words);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
        run.stdout
    }
}

/// A shell ignores SIGINT in background jobs, and the program would inherit that.
#[cfg(unix)]
#[allow(unsafe_code)]
fn end_when_told(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn end_when_told(_: &mut Command) {}

#[derive(Debug)]
pub struct Run {
    /// `None` if a signal ended it.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        Self::with_input(command, b"")
    }

    pub fn with_input(command: &mut Command, input: &[u8]) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // Write in a thread: a pipe is limited, and a program may not read its input.
        let output = thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).ok());
            child.wait_with_output().expect("the program ends")
        });
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}
