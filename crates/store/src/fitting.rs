//! The worker ids that a start can get, and the errors when none is left.

use std::fmt;
use std::time::Duration;

use uidring::Layout;

use crate::range::WorkerRange;

/// The worker ids that a start can get: those of the layout within the store's range.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Fitting {
    /// The layout's greatest worker id.
    pub max: u64,
    /// The store's range.
    pub range: Option<WorkerRange>,
}

impl Fitting {
    /// The worker ids of this layout within the range.
    pub fn new(layout: &Layout, range: Option<WorkerRange>) -> Self {
        Self { max: layout.max_worker_id(), range }
    }

    /// Whether a start can get this worker id.
    pub fn has(self, worker_id: u64) -> bool {
        worker_id <= self.max && self.range.is_none_or(|range| range.contains(worker_id))
    }

    /// The lowest; the layout may not have it.
    pub fn first(self) -> u64 {
        self.range.map_or(1, WorkerRange::first)
    }

    /// The greatest.
    pub fn last(self) -> u64 {
        self.range.map_or(self.max, |range| range.last().min(self.max))
    }

    /// How many there are.
    pub fn count(self) -> u64 {
        self.left_after(None)
    }

    /// How many are above `newest`, the greatest so far.
    pub fn left_after(self, newest: Option<u64>) -> u64 {
        let next = newest.map_or(0, |newest| newest.saturating_add(1));
        (self.last() + 1).saturating_sub(next.max(self.first()))
    }

    /// Whether fewer than a tenth are left.
    pub fn is_low(self, left: u64) -> bool {
        left.saturating_mul(10) < self.count()
    }

    /// Says why the worker id `next` is not handed out, and what to do.
    pub(crate) fn why_not(self, next: u64) -> String {
        let Self { max, range } = self;
        match range {
            Some(range) if range.first() > max => format!(
                "the worker ids of this store are {range}, and the layout's greatest is {max}: use a layout with more \
                 worker bits, or a new database with a lower range"
            ),
            Some(range) if next < range.first() => format!(
                "the next worker id would be {next}, and those of this store are {range}: the counter went \
                 backwards; set it above all worker ids that were handed out, or use a new database with another range"
            ),
            Some(range) if next <= max => format!(
                "each start has used up a worker id, and the next, {next}, is over the last of this store, whose \
                 worker ids are {range}; start with --worker lease, and if none is free, {}; or use a new database \
                 with another range",
                reuse("FIRST LAST")
            ),
            _ => format!(
                "each start has used up a worker id, and the next, {next}, is over the layout's greatest, {max}; \
                 start with --worker lease, and if none is free, {}; or use a layout with more worker bits, or a fresh \
                 table with an earlier epoch",
                reuse("FIRST LAST")
            ),
        }
    }
}

/// Why no worker id is free now.
#[derive(Clone, Debug, Default)]
pub struct Shortage {
    /// How many have a lease, held or not. Starts without a lease have used up the others.
    pub leased: u64,
    /// How many are held.
    pub held: u64,
    /// How soon the first of these leases ends, unless it is renewed.
    pub ends_in: Option<Duration>,
    /// Worker id and horizon tick of the free row that is the least too far ahead of the clock.
    pub ahead: Option<(u64, u64)>,
    /// What is wrong with an unusable free row, if any.
    pub flaw: Option<String>,
    /// The recorded range of the store; without one, worker ids begin at 1.
    pub range: Option<WorkerRange>,
}

impl Shortage {
    /// Says who has the worker ids up to `max`, and what to do.
    pub(crate) fn text(&self, max: u64) -> String {
        let fitting = Fitting { max, range: self.range };
        let all = fitting.count();
        let (whose, more) = match self.range {
            None => ("layout's", "use another database for a layout with more worker bits"),
            Some(_) => ("store's", "use another database with another range"),
        };
        let used_up = all.saturating_sub(self.leased);
        let (mut who, mut help) = (Vec::new(), Vec::new());
        let counted = |count: u64, [one, more]: [&str; 2]| match (all, count) {
            (1, _) => format!("the {whose} only one {one}"),
            (_, 1) => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        if self.held > 0 {
            let first = match self.ends_in {
                None => String::new(),
                Some(time) if self.held == 1 => format!(", for {time:?} more"),
                Some(time) => format!(", the first for {time:?} more"),
            };
            who.push(format!("{} held{first}", counted(self.held, ["is", "are"])));
            help.push(
                "wait, or end the lease of a dead holder with `uidring worker fence ID` and the flags of this \
                 database"
                    .into(),
            );
        }
        if used_up > 0 {
            let used_up = counted(used_up, ["was", "were"]);
            who.push(format!("{used_up} used up by starts without a lease"));
            // `reuse` refuses worker ids that are leased, so name a range only if none is.
            help.push(match self.leased {
                0 => reuse(&format!("{} {}", fitting.first(), fitting.last())),
                _ => reuse("FIRST LAST"),
            });
        }
        help.push(more.into());
        if who.is_empty() {
            who.push("none can be leased".into());
        }
        let of = if all == 1 { "".into() } else { format!("of {fitting}, ") };
        let flaw = self.flaw.iter().map(|flaw| format!("; one cannot be used: {flaw}"));
        let flaw = flaw.collect::<String>();
        format!("{of}{}; {}{flaw}", who.join(", and "), help.join("; or "))
    }
}

/// Displays as "the layout's 1023 worker ids" or "the 100 worker ids 100-199 of this store".
impl fmt::Display for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            None => write!(f, "the layout's {} worker ids", self.max),
            Some(_) => write!(
                f,
                "the {} worker ids {}-{} of this store",
                self.count(),
                self.first(),
                self.last()
            ),
        }
    }
}

/// Says how to allow leases of used-up worker ids.
fn reuse(worker_ids: &str) -> String {
    format!(
        "where those starts have ended, allow leases of their worker ids with `uidring worker reuse {worker_ids} \
         --used-until TIME` and the flags of this database and layout"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> WorkerRange {
        text.parse().expect(text)
    }

    #[test]
    fn what_fits_is_in_the_layout_and_in_the_range() {
        let layout = Layout::SNOWFLAKE;
        let all = Fitting::new(&layout, None);
        assert!(all.has(1) && all.has(1_023) && !all.has(1_024));
        let left = [None, Some(1_022), Some(1_023), Some(u64::MAX)].map(|id| all.left_after(id));
        assert_eq!((all.count(), left), (1_023, [1_023, 1, 0, 0]));
        let some = Fitting::new(&layout, Some(range("1000-2000")));
        assert!(!some.has(999) && some.has(1_000) && some.has(1_023) && !some.has(1_024));
        assert_eq!((some.count(), some.left_after(Some(1_019))), (24, 4));
        let all = Fitting { max: WorkerRange::MAX, range: Some(range("100-199")) };
        let left = [None, Some(50), Some(99), Some(150), Some(199), Some(300)]
            .map(|newest| all.left_after(newest));
        assert_eq!(left, [100, 100, 100, 49, 0, 0]);
        assert_eq!(Fitting::new(&layout, Some(range("2000-3000"))).count(), 0);
    }

    #[test]
    fn the_texts_name_layout_or_range() {
        let range = range("1000-1010");
        let some = Fitting::new(&Layout::SNOWFLAKE, Some(range));
        let ends_in = Some(Duration::from_secs(5));
        let none = Shortage { range: Some(range), ..Shortage::default() };
        let text = Shortage { leased: 4, held: 3, ends_in, ..none.clone() }.text(some.max);
        for words in ["of the 11 worker ids 1000-1010", "3 are held", "7 were used up"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(none.text(some.max).contains("reuse 1000 1010 "));
        assert!(some.why_not(1_011).contains("1011, is over the last of this store"));
        assert!(some.why_not(999).contains("would be 999"));
    }
}
