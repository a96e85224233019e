//! The machine that was measured.

use std::env::consts::{ARCH, OS};
use std::{fs, thread};

use serde::Serialize;

#[derive(Serialize)]
pub struct Machine {
    /// The processor's name, if Linux knows it.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The system, its version if known, and the architecture.
    pub os: String,
}

impl Machine {
    pub fn this() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // Exists only on Linux.
        let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let os = [OS, version.trim(), ARCH].into_iter().filter(|word| !word.is_empty());
        Self { cpu: cpu(), cores, os: os.collect::<Vec<_>>().join(" ") }
    }
}

fn cpu() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned()).filter(|name| !name.is_empty())
}
