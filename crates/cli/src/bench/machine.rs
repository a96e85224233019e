//! The machine that was measured.

use std::env::consts::{ARCH, OS};
use std::{fs, thread};

pub struct Machine {
    /// The processor's name, if the system knows it.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The system, its version if known, and the architecture.
    pub os: String,
}

impl Machine {
    pub fn this() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let version = read("/proc/sys/kernel/osrelease").unwrap_or_default();
        let os = [OS, version.trim(), ARCH].into_iter().filter(|word| !word.is_empty());
        Self { cpu: cpu(), cores, os: os.collect::<Vec<_>>().join(" ") }
    }
}

#[cfg(target_os = "macos")]
fn cpu() -> Option<String> {
    let mut command = std::process::Command::new("/usr/sbin/sysctl");
    let output = command.args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
    named(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(not(target_os = "macos"))]
fn cpu() -> Option<String> {
    let info = read("/proc/cpuinfo")?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    named(line.split_once(':')?.1)
}

fn named(name: &str) -> Option<String> {
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Reads a file that exists only on Linux.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}
