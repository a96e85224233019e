//! The program with a wall clock that is wrong or is set while it runs. Debian's faketime library replaces the
//! operating system's clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Home, Run};

/// Returns the library's path, in a folder named after the machine's architecture.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("a folder of libraries").flatten();
    let mut found = folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .filter(|path| path.exists());
    found.next().expect("no libfaketime here: install it with `apt-get install libfaketime`")
}

pub struct Elsewhen {
    pub home: Home,
    offset: PathBuf,
}

impl Elsewhen {
    /// `offset` is in seconds from the true time.
    pub fn new(offset: i64) -> Self {
        let home = Home::new();
        let elsewhen = Self { offset: home.folder.path().join("offset"), home };
        elsewhen.set(offset);
        elsewhen
    }

    /// Sets the clock in one step, so that the program never reads half a value.
    pub fn set(&self, offset: i64) {
        let new = self.offset.with_extension("new");
        fs::write(&new, format!("{offset:+}\n")).expect("writes");
        fs::rename(new, &self.offset).expect("renames");
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = self.home.command(words);
        command
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", &self.offset)
            // Read the file at each reading of the clock.
            .env("FAKETIME_NO_CACHE", "1")
            // Fake only the wall clock: a monotonic clock does not jump.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env_remove("FAKETIME");
        command
    }

    pub fn run(&self, words: &str) -> Run {
        Run::of(&mut self.command(words))
    }

    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.home.folder.path().join(path).exists()
    }
}
