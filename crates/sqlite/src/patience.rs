//! How long to wait for other processes at a file, and how.

use std::error::Error;
use std::fmt;
use std::thread;
use std::time::Duration;

use uidring::adapter::{Moment, Monotonic, SystemMonotonic};

/// How long to wait for others.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// While they make no progress.
    pub standstill: Duration,
    /// In total.
    pub in_all: Duration,
}

impl Patience {
    /// Even a thousand starts at once come to an end, and sooner if none of them gives up.
    pub const USUAL: Self =
        Self { standstill: Duration::from_secs(10), in_all: Duration::from_secs(60) };

    /// Limits both times.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { standstill: self.standstill.min(limit), in_all: self.in_all.min(limit) }
    }
}

/// A wait for others, which may make progress meanwhile.
pub struct Wait<T> {
    patience: Patience,
    began: Moment,
    /// The progress of others when last seen.
    seen: Option<T>,
    /// When that changed, and how often.
    changed: Duration,
    changes: u64,
}

impl<T: PartialEq> Wait<T> {
    pub fn new(patience: Patience) -> Self {
        let (began, changed) = (SystemMonotonic.moment(), Duration::ZERO);
        Self { patience, began, seen: None, changed, changes: 0 }
    }

    /// Sleeps for at most an eighth of the wait so far, so that many waiters leave the processors to the one that they
    /// wait for. Never sleeps longer than 10 ms, or newcomers would always come first. When patience ends, returns why
    /// instead.
    pub fn go_on(&mut self, others: T) -> Result<(), GaveUp> {
        let now = self.waited();
        if self.seen.as_ref() != Some(&others) {
            self.changes += u64::from(self.seen.is_some());
            (self.seen, self.changed) = (Some(others), now);
        }
        let Patience { standstill, in_all } = self.patience;
        if now >= in_all || now - self.changed >= standstill {
            return Err(GaveUp {
                waited: now,
                idle: now - self.changed,
                changes: self.changes,
                standstill,
            });
        }
        let longest = (now / 8).clamp(Duration::from_micros(200), Duration::from_millis(10));
        let pause = longest.mul_f64(0.5 + fastrand::f64() / 2.0);
        thread::sleep(pause.min(in_all - now));
        Ok(())
    }

    /// Returns what is left of the total time.
    pub fn left(&self) -> Duration {
        self.patience.in_all.saturating_sub(self.waited())
    }

    fn waited(&self) -> Duration {
        SystemMonotonic.moment().since(self.began)
    }
}

/// Others kept the file locked for too long.
#[derive(Debug)]
pub struct GaveUp {
    waited: Duration,
    /// How long others had made no progress.
    idle: Duration,
    changes: u64,
    standstill: Duration,
}

impl Error for GaveUp {}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited, idle, changes, standstill } = self;
        if *changes == 0 || idle >= standstill {
            return write!(
                f,
                "another process keeps it locked, and nothing was committed in {idle:.1?}; if that process hangs, \
                 end it"
            );
        }
        write!(
            f,
            "another process keeps it locked: others were seen to commit {changes} times in {waited:.1?}; try again \
             when fewer use it at once"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Waits until it gives up.
    fn wait(patience: Patience, mut others: impl FnMut() -> u32) -> GaveUp {
        let mut wait = Wait::new(patience);
        loop {
            assert!(wait.waited() < Duration::from_secs(10), "it never gives up");
            if let Err(gave_up) = wait.go_on(others()) {
                return gave_up;
            }
        }
    }

    #[test]
    fn where_nobody_gets_on_patience_is_short() {
        let patience = Patience { standstill: 30 * MILLISECOND, in_all: Duration::from_secs(60) };
        let gave_up = wait(patience, || 7);
        assert!(gave_up.waited >= 30 * MILLISECOND, "{gave_up}");
        assert!(gave_up.to_string().contains("nothing was committed"), "{gave_up}");
    }

    #[test]
    fn others_that_stop_are_seen_to_have_stopped() {
        let patience = Patience { standstill: 30 * MILLISECOND, in_all: Duration::from_secs(60) };
        let mut commits = 0;
        let gave_up = wait(patience, || {
            commits = 5.min(commits + 1);
            commits
        });
        assert_eq!(gave_up.changes, 4);
        assert!(gave_up.waited > gave_up.idle, "{gave_up:?}");
        assert!(gave_up.to_string().contains("nothing was committed"), "{gave_up}");
    }

    #[test]
    fn where_others_get_on_it_lasts_to_its_end() {
        let mut commits = 0;
        // Shorter than any pause.
        let patience = Patience { standstill: MILLISECOND / 100, in_all: 100 * MILLISECOND };
        let gave_up = wait(patience, || {
            commits += 1;
            commits
        });
        assert!(gave_up.waited >= 100 * MILLISECOND, "{gave_up}");
        assert_eq!(gave_up.changes, u64::from(commits) - 1);
        assert!(gave_up.to_string().contains("when fewer use it at once"), "{gave_up}");
    }
}
