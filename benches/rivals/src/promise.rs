//! What a contestant's ids promise, checked on samples outside the measured time. A generator that is fast because it
//! repeats ids must not appear in a table.

/// An id of a contestant, as a number for the checks.
pub trait Id: Copy + Send + 'static {
    fn number(self) -> u128;
}

impl Id for u64 {
    fn number(self) -> u128 {
        self.into()
    }
}

impl Id for i64 {
    fn number(self) -> u128 {
        self.try_into().expect("every rival leaves the sign bit 0")
    }
}

impl Id for uidring::Uid {
    fn number(self) -> u128 {
        self.get().into()
    }
}

impl Id for snowflake_me::SnowflakeId {
    fn number(self) -> u128 {
        self.as_u64().into()
    }
}

impl Id for uuid::Uuid {
    fn number(self) -> u128 {
        self.as_u128()
    }
}

impl Id for ulid::Ulid {
    fn number(self) -> u128 {
        self.0
    }
}

/// A sample of one thread's ids.
pub struct Seen {
    /// The last id before the measured time.
    pub before: u128,
    /// The number of ids taken in the measured time.
    pub timed: u64,
    /// The ids after it.
    pub after: Vec<u128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each id is the previous one plus one; only for one thread.
    Consecutive,
    /// Each id of a thread is greater than the previous one.
    Increasing,
    /// No id repeats; the order is free.
    Unique,
}

impl Promise {
    /// Panics if one thread's ids break the promise.
    pub fn check(self, seen: &Seen) {
        let first = *seen.after.first().expect("a sample has ids");
        let pairs = seen.after.windows(2);
        match self {
            Self::Consecutive => {
                // Checks the measured loop itself: not one id more or less.
                assert_eq!(first - seen.before, u128::from(seen.timed) + 1, "ids were skipped");
                assert!({ pairs }.all(|pair| pair[0] + 1 == pair[1]), "ids were skipped");
            }
            Self::Increasing => {
                assert!(seen.before < first, "the measured time moved the ids backwards");
                assert!({ pairs }.all(|pair| pair[0] < pair[1]), "an id was not the greater one");
            }
            Self::Unique => assert_ne!(seen.before, first, "an id came twice"),
        }
    }
}

/// Panics if an id repeats in the threads' samples together.
pub fn check_distinct(threads: &[Seen]) {
    let mut all: Vec<u128> = Vec::new();
    for seen in threads {
        all.push(seen.before);
        all.extend(&seen.after);
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "an id came twice");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(before: u128, timed: u64, after: &[u128]) -> Seen {
        Seen { before, timed, after: after.to_vec() }
    }

    #[test]
    fn kept_promises_pass() {
        Promise::Consecutive.check(&seen(1, 3, &[5, 6]));
        Promise::Increasing.check(&seen(1, 3, &[9, 12]));
        Promise::Unique.check(&seen(9, 3, &[1, 5]));
        check_distinct(&[seen(1, 3, &[5, 6]), seen(2, 3, &[7, 8])]);
    }

    #[test]
    #[should_panic = "ids were skipped"]
    fn a_loop_that_did_less_is_found() {
        Promise::Consecutive.check(&seen(1, 3, &[4, 5]));
    }

    #[test]
    #[should_panic = "an id was not the greater one"]
    fn an_id_that_stands_still_is_found() {
        Promise::Increasing.check(&seen(1, 3, &[5, 5]));
    }

    #[test]
    #[should_panic = "an id came twice"]
    fn an_id_that_two_threads_got_is_found() {
        check_distinct(&[seen(1, 3, &[5, 6]), seen(2, 3, &[6, 7])]);
    }
}
