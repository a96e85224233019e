//! Leaf's rule for how many ids the next load reserves.

use std::time::Duration;

use crate::timestamp::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(super) struct StepRule {
    /// A segment that lasts less makes the step longer. One that lasts at least twice as long makes it shorter.
    pub(super) duration: Duration,
    pub(super) factor: u64,
    /// The longest step that the rule makes. The table may ask for more.
    pub(super) max: u64,
}

impl Default for StepRule {
    fn default() -> Self {
        Self { duration: Duration::from_secs(15 * 60), factor: 2, max: 1_000_000 }
    }
}

#[derive(Debug)]
pub(super) struct Step {
    present: u64,
    table: u64,
    since: Option<Timestamp>,
}

impl Step {
    pub(super) fn new(table: u64) -> Self {
        Self { present: table, table, since: None }
    }

    pub(super) fn present(&self) -> u64 {
        self.present
    }

    pub(super) fn table(&self) -> u64 {
        self.table
    }

    /// Updates the table's step. If it has changed, the rule starts again from there.
    pub(super) fn set_table(&mut self, table: u64) {
        if self.table != table {
            (self.present, self.table) = (table, table);
        }
    }

    pub(super) fn begun(&mut self, now: Timestamp) {
        self.since = Some(now);
    }

    /// Applies the rule when the current segment is used up.
    pub(super) fn used_up(&mut self, rule: &StepRule, now: Timestamp) {
        // After the clock was set back, the duration is unknown.
        let Some(since) = self.since.filter(|since| *since <= now) else { return };
        let lasted = now.saturating_since(since);
        let step = if lasted < rule.duration {
            self.present.max(self.present.saturating_mul(rule.factor).min(rule.max))
        } else if lasted < rule.duration.saturating_mul(2) {
            self.present
        } else {
            self.present / rule.factor
        };
        self.present = step.max(self.table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps after segments that lasted these minutes.
    fn steps(table: u64, minutes: &[u64]) -> Vec<u64> {
        let mut step = Step::new(table);
        let mut now = Timestamp::from_millis(0);
        let each = minutes.iter().map(|minutes| {
            step.begun(now);
            now = now.saturating_add(Duration::from_secs(60 * minutes));
            step.used_up(&StepRule::default(), now);
            step.present()
        });
        each.collect()
    }

    #[test]
    fn it_doubles_keeps_and_halves_between_the_table_and_the_cap() {
        assert_eq!(
            steps(1_000, &[0, 14, 15, 29, 30, 90, 90]),
            [2_000, 4_000, 4_000, 4_000, 2_000, 1_000, 1_000]
        );
        assert_eq!(steps(300_000, &[1, 1, 1, 60]), [600_000, 1_000_000, 1_000_000, 500_000]);
        assert_eq!(steps(3_000_000, &[1, 20, 60]), [3_000_000; 3], "the table's step counts");
    }

    #[test]
    fn a_change_of_the_table_counts_at_once() {
        let mut step = Step::new(100);
        step.begun(Timestamp::from_millis(0));
        step.used_up(&StepRule::default(), Timestamp::from_millis(1));
        step.set_table(100);
        assert_eq!((step.present(), step.table()), (200, 100), "no news");
        step.set_table(50);
        assert_eq!(step.present(), 50);
        step.set_table(5_000_000);
        assert_eq!(step.present(), 5_000_000);
    }

    #[test]
    fn a_clock_that_is_set_back_changes_nothing() {
        let mut step = Step::new(100);
        step.begun(Timestamp::from_millis(5));
        step.used_up(&StepRule::default(), Timestamp::from_millis(4));
        assert_eq!(step.present(), 100);
    }
}
