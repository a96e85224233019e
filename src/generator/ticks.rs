//! The source of the cached generator's runs: one tick after another.

use super::start::Position;
use crate::clock::Clock;
use crate::error::Error;
use crate::layout::Layout;
use crate::padding::RunSource;

/// Walks the ticks of one worker, each to its last sequence number, and never back: neither a full
/// ring nor a clock that is set back makes it drop or repeat a part of a tick. Only a clock that is
/// ahead of it makes it go on from there.
#[derive(Debug)]
pub(super) struct TickRuns<C> {
    layout: Layout,
    worker_id: u64,
    clock: C,
    run_length: u64,
    /// The next run's place; its tick is above the layout's last one when nothing is left.
    next: Position,
}

impl<C: Clock> TickRuns<C> {
    /// Runs of `run_length`, which must divide the uids of a tick, from `start` on. A run never
    /// starts in the middle of another: up to a run's length of uids is passed over after `start`.
    pub(super) fn new(
        layout: Layout,
        worker_id: u64,
        clock: C,
        run_length: u64,
        start: Position,
    ) -> Self {
        let mut runs = Self { layout, worker_id, clock, run_length, next: start };
        runs.go_to(Position {
            tick: start.tick,
            sequence: start.sequence.next_multiple_of(run_length),
        });
        runs
    }

    /// The end of a tick is the beginning of the next one.
    fn go_to(&mut self, place: Position) {
        self.next = if place.sequence <= self.layout.max_sequence() {
            place
        } else {
            Position { tick: place.tick + 1, sequence: 0 }
        };
    }
}

impl<C: Clock + 'static> RunSource for TickRuns<C> {
    fn begin(&mut self) {
        let present = match self.layout.tick_at(self.clock.now()) {
            Ok(tick) => tick,
            // No tick can express this time: it is over, even if some ticks were left.
            Err(Error::LayoutExhausted { .. }) => self.layout.max_tick() + 1,
            // A clock that was set back: nothing is repeated, the walk just goes on.
            Err(_) => 0,
        };
        self.next = self.next.max(Position { tick: present, sequence: 0 });
    }

    fn next_run(&mut self) -> Option<u64> {
        let Position { tick, sequence } = self.next;
        if tick > self.layout.max_tick() {
            return None;
        }
        self.go_to(Position { tick, sequence: sequence + self.run_length });
        Some(self.layout.pack(tick, self.worker_id, sequence).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::layout::{Bits, Tick};
    use crate::timestamp::Timestamp;
    use std::time::Duration;

    /// 4 ticks, 8 uids each, runs of 4; the clock stands at tick 0.
    fn runs(start: Position) -> (TickRuns<ManualClock>, ManualClock) {
        let bits = Bits { time: 2, worker: 1, sequence: 3 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::default());
        (TickRuns::new(layout, 1, clock.clone(), 4, start), clock)
    }

    fn tick_and_sequence(uid: u64) -> (u64, u64) {
        assert_eq!((uid >> 3) & 1, 1, "the worker");
        (uid >> 4, uid & 7)
    }

    #[test]
    fn walks_every_tick_to_its_end_and_then_ends_itself() {
        let (mut runs, _) = runs(Position { tick: 0, sequence: 0 });
        let mut all = Vec::new();
        while let Some(uid) = runs.next_run() {
            all.push(tick_and_sequence(uid));
        }
        let expected: Vec<_> = (0..4).flat_map(|tick| [(tick, 0), (tick, 4)]).collect();
        assert_eq!(all, expected);
        assert_eq!(runs.next_run(), None, "for good");
    }

    #[test]
    fn starts_at_the_next_whole_run() {
        for (sequence, expected) in [(0, (1, 0)), (1, (1, 4)), (4, (1, 4)), (5, (2, 0))] {
            let (mut runs, _) = runs(Position { tick: 1, sequence });
            assert_eq!(runs.next_run().map(tick_and_sequence), Some(expected));
        }
    }

    #[test]
    fn follows_the_clock_forwards_only() {
        let (mut runs, clock) = runs(Position { tick: 0, sequence: 0 });
        clock.advance(Duration::from_secs(2));
        runs.begin();
        assert_eq!(runs.next_run().map(tick_and_sequence), Some((2, 0)));
        clock.set(Timestamp::from_millis(-5_000));
        runs.begin();
        assert_eq!(runs.next_run().map(tick_and_sequence), Some((2, 4)));
        clock.set(Timestamp::from_millis(4_000));
        runs.begin();
        assert_eq!(runs.next_run(), None, "tick 3 is in the past, and there is no tick 4");
    }
}
