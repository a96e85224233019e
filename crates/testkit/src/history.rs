//! A checker for histories of concurrent takes with their times: no uid repeats. Takes from the generator itself, or from a
//! ring that processes share, are in time order across all threads and processes. Takes from a thread's handle or a local
//! one are in their own order.

use std::collections::HashMap;
use std::mem;

/// The form that a take used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The generator itself, with `next_uid` or `fill`.
    Shared,
    PerThread,
    Local,
}

/// Neighbouring uids that one call returned. A call that returned several runs is in the history several times.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Nanoseconds before and after the call.
    pub begin: u64,
    pub end: u64,
    pub first: u64,
    pub last: u64,
    pub form: Form,
    /// Of any process.
    pub thread: u64,
}

/// Checks consecutive histories: all calls of one return before the next begins.
#[derive(Default)]
pub struct Checker {
    /// All uids so far in order, as ranges of neighbours: first and last.
    seen: Vec<(u64, u64)>,
    /// The greatest uid of the generator itself.
    greatest: Option<u64>,
}

impl Checker {
    /// The next histories are of another generator, whose uids are in no order with those before.
    pub fn begin_another(&mut self) {
        self.greatest = None;
    }

    /// Checks a history whose runs are in program order, thread by thread.
    ///
    /// # Errors
    ///
    /// Says which takes violate the promises.
    pub fn check(&mut self, mut history: Vec<Run>) -> Result<(), String> {
        in_each_thread(&history)?;
        history.sort_unstable_by_key(|run| run.first);
        self.distinct(&history)?;
        let shared: Vec<_> = history.iter().filter(|run| run.form == Form::Shared).collect();
        if let (Some(greatest), Some(first)) = (self.greatest, shared.first())
            && first.first <= greatest
        {
            return Err(format!("{first:?} is not above {greatest}, which was taken before"));
        }
        // From the greatest uid down: the earliest end of a call with a greater uid.
        let mut earliest: Option<&Run> = None;
        for run in shared.iter().rev() {
            if let Some(earlier) = earliest.filter(|earlier| earlier.end < run.begin) {
                return Err(format!("{earlier:?} had returned before {run:?} began"));
            }
            earliest = Some(earliest.filter(|other| other.end <= run.end).unwrap_or(run));
        }
        self.greatest = shared.last().map(|run| run.last).or(self.greatest);
        Ok(())
    }

    /// Adds uids, which must be new.
    fn distinct(&mut self, sorted: &[Run]) -> Result<(), String> {
        let mut all = mem::take(&mut self.seen);
        all.extend(sorted.iter().map(|run| (run.first, run.last)));
        // Two sorted parts, which this merges.
        all.sort_by_key(|run| run.0);
        for (first, last) in all {
            match self.seen.last_mut() {
                Some(before) if before.1 >= first => {
                    return Err(format!("{first} came twice: it is in {before:?} as well"));
                }
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => self.seen.push((first, last)),
            }
        }
        Ok(())
    }
}

/// Checks that within each thread, uids of one form increase.
fn in_each_thread(history: &[Run]) -> Result<(), String> {
    let mut before: HashMap<(u64, Form), Run> = HashMap::new();
    for run in history {
        if let Some(earlier) = before.insert((run.thread, run.form), *run)
            && earlier.last >= run.first
        {
            return Err(format!("a thread took {earlier:?} before {run:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_finds_what_is_wrong() {
        let run =
            |thread, begin, end, first, last, form| Run { begin, end, first, last, form, thread };
        let shared = |thread, begin, end, uid| run(thread, begin, end, uid, uid, Form::Shared);
        let check = |history: &[Run]| Checker::default().check(history.to_vec());
        // Overlapping calls may return in any order.
        assert_eq!(check(&[shared(0, 0, 10, 2), shared(1, 5, 6, 1)]), Ok(()));
        assert_eq!(check(&[shared(0, 0, 10, 2), shared(1, 10, 12, 1)]), Ok(()));
        // Other calls may not, however far apart, whatever lies between.
        assert!(check(&[shared(0, 0, 10, 2), shared(1, 11, 12, 1)]).is_err());
        let between = [shared(0, 0, 1, 9), shared(1, 0, 90, 5), shared(2, 2, 3, 1)];
        assert!(check(&between).is_err());
        let many: Vec<_> = (0..100).map(|n| shared(n, n, n + 50, n)).collect();
        assert_eq!(check(&many), Ok(()));
        // For other forms, each thread's own order counts.
        let block = |thread, begin, uid| run(thread, begin, begin + 1, uid, uid, Form::PerThread);
        assert_eq!(check(&[block(0, 0, 100), block(1, 5, 1), block(1, 9, 2)]), Ok(()));
        assert!(check(&[block(0, 0, 100), shared(0, 2, 3, 101), block(0, 5, 1)]).is_err());
        // No repeats, in one history or across two.
        assert!(check(&[run(0, 0, 1, 5, 9, Form::Local), block(1, 0, 7)]).is_err());
        let mut checker = Checker::default();
        assert_eq!(checker.check(vec![run(0, 0, 1, 5, 9, Form::Local)]), Ok(()));
        assert!(checker.check(vec![block(1, 0, 9)]).is_err());
        let mut checker = Checker::default();
        assert_eq!(checker.check(vec![shared(0, 0, 1, 9)]), Ok(()));
        assert!(checker.check(vec![shared(0, 0, 1, 8)]).is_err(), "below an earlier history");
    }
}
