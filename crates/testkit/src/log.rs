//! What the process logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::deadline::LIMIT;

/// Keeps log records of all threads.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts keeping warnings and errors. Call it once in a process.
    pub fn start() -> Self {
        Self::start_at(LevelFilter::WARN)
    }

    /// Starts keeping log records of this level and above. Call it once in a process.
    pub fn start_at(level: LevelFilter) -> Self {
        let log = Self::default();
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(log.clone())
            .with_ansi(false)
            .init();
        log
    }

    /// Keeps the warnings and errors of this thread until the guard is dropped.
    pub fn here() -> (Self, impl Sized) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::WARN)
            .with_writer(log.clone())
            .with_ansi(false);
        (log, subscriber.set_default())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the number of lines with the word.
    pub fn lines(&self, word: &str) -> usize {
        self.text().lines().filter(|line| line.contains(word)).count()
    }

    /// Waits until a line holds the word.
    #[track_caller]
    pub fn wait_for(&self, word: &str) {
        let begin = Instant::now();
        while self.lines(word) == 0 {
            assert!(begin.elapsed() < LIMIT, "never logged: {word}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
