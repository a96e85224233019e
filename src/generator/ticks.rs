//! The cached generator's source of runs: one run per tick.

use std::sync::Arc;
use std::time::Duration;

use super::forecast::Forecast;
use super::position::Position;
use super::step_back::StepBack;
use crate::clock::{Clock, read};
use crate::error::Error;
use crate::layout::Layout;
use crate::padding::{NextRun, RunSource};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::timestamp::Timestamp;
use crate::worker::IssueHorizon;

/// How far uids may be from the clock; `None` is without limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_borrow: Option<Duration>,
    pub(super) max_lag: Option<Duration>,
    pub(super) refresh: Duration,
}

/// Padding progress. Written by the thread that pads, read by `stats` and errors.
#[derive(Debug, Default)]
pub(super) struct PaddingProgress {
    /// The next tick to pad.
    tick: AtomicU64,
    /// Whether that tick is too far ahead of the clock.
    borrowed: AtomicBool,
    /// How far ahead it was at that time, in milliseconds.
    lead: AtomicU64,
    /// How long the time field lasts at the present rate, in milliseconds.
    life: AtomicU64,
    /// How far the clock is behind the latest time it has shown, in milliseconds.
    clock_behind: AtomicU64,
}

// Relaxed throughout: the values are independent of each other.
impl PaddingProgress {
    pub(super) fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    pub(super) fn is_too_far_ahead(&self) -> bool {
        self.borrowed.load(Ordering::Relaxed)
    }

    pub(super) fn lead(&self) -> Duration {
        Duration::from_millis(self.lead.load(Ordering::Relaxed))
    }

    pub(super) fn life(&self) -> Duration {
        Duration::from_millis(self.life.load(Ordering::Relaxed))
    }

    pub(super) fn clock_behind(&self) -> Duration {
        Duration::from_millis(self.clock_behind.load(Ordering::Relaxed))
    }
}

/// Half a millisecond, the clock's resolution.
const HALF_A_READING: Duration = Duration::from_micros(500);

/// Walks the ticks of one worker, each to its last sequence number, and never backwards. A full ring or a clock that is
/// set back never makes it drop or repeat part of a tick. If the clock gets ahead of it, it jumps to the clock's tick.
#[derive(Debug)]
pub(super) struct TickRuns<C> {
    layout: Layout,
    worker_id: u64,
    clock: C,
    bounds: Bounds,
    /// Where the next run starts. Its tick is above the layout's last one if nothing is left.
    next: Position,
    /// The last tick that may be borrowed, as of `now`.
    last_borrowable: u64,
    /// The first number that is not stale, as of `now`.
    oldest: u64,
    now: Timestamp,
    forecast: Forecast,
    step_back: StepBack,
    progress: Arc<PaddingProgress>,
    issue_horizon: IssueHorizon,
    /// The last tick that the issue horizon allowed.
    granted: Option<u64>,
}

impl<C: Clock> TickRuns<C> {
    pub(super) fn new(
        layout: Layout,
        worker_id: u64,
        clock: C,
        start: Position,
        bounds: Bounds,
        issue_horizon: IssueHorizon,
    ) -> Self {
        let now = read(&clock);
        let progress = Arc::<PaddingProgress>::default();
        progress.tick.store(start.tick, Ordering::Relaxed);
        let mut runs = Self {
            layout,
            worker_id,
            clock,
            bounds,
            next: start,
            last_borrowable: 0,
            oldest: 0,
            now,
            forecast: Forecast::new(layout, now, layout.time_of(start.tick)),
            step_back: StepBack::new(now),
            progress,
            issue_horizon,
            granted: None,
        };
        runs.update(now);
        runs
    }

    pub(super) fn progress(&self) -> &Arc<PaddingProgress> {
        &self.progress
    }

    /// Sets a hook that is called repeatedly while the clock is far behind. It may run in any thread that pads.
    pub(super) fn on_clock_back(&mut self, hook: Box<dyn Fn() + Send>) {
        self.step_back.on_clock_back(hook);
    }

    fn go_to(&mut self, tick: u64) {
        self.next = Position { tick, sequence: 0 };
        self.progress.tick.store(tick, Ordering::Relaxed);
        self.issue_horizon.reach(tick);
    }

    /// Returns the tick at a time, clamped to the layout.
    fn nearest_tick(&self, time: Timestamp) -> u64 {
        match self.layout.tick_at(time) {
            Ok(tick) => tick,
            Err(Error::LayoutExhausted { .. }) => self.layout.max_tick(),
            Err(_) => 0,
        }
    }

    /// Returns the first tick whose uids are not stale. The present tick is never stale.
    fn oldest_tick(&self) -> u64 {
        let Some(max_lag) = self.bounds.max_lag else { return 0 };
        let lag = i64::try_from(max_lag.as_millis()).unwrap_or(i64::MAX);
        let limit = Timestamp::from_millis(self.now.as_millis().saturating_sub(lag));
        let tick = self.nearest_tick(limit);
        let tick = if self.layout.time_of(tick) < limit { tick + 1 } else { tick };
        match self.layout.tick_at(self.now) {
            Ok(present) => tick.min(present),
            Err(_) => tick,
        }
    }

    fn update(&mut self, now: Timestamp) {
        self.now = now;
        let present = match self.layout.tick_at(self.now) {
            Ok(tick) => tick,
            // No tick can express this time. Issue nothing more, even if ticks are left.
            Err(Error::LayoutExhausted { .. }) => self.layout.max_tick() + 1,
            // Before the epoch: the clock was set back. Continue from the next tick.
            Err(_) => 0,
        };
        if present > self.next.tick {
            self.go_to(present);
        }
        self.last_borrowable = match self.bounds.max_borrow {
            // No limit; the layout's end stops the walk.
            None => u64::MAX,
            Some(limit) => match self.layout.tick_at(self.now.saturating_add(limit)) {
                Err(Error::LayoutExhausted { .. }) => u64::MAX,
                Ok(tick) => tick,
                Err(_) => 0,
            },
        };
        let next = self.layout.time_of(self.next.tick);
        let behind = self.step_back.look(now, next, self.worker_id, self.bounds.max_borrow);
        let behind = u64::try_from(behind.as_millis()).unwrap_or(u64::MAX);
        self.progress.clock_behind.store(behind, Ordering::Relaxed);
        let life = self.forecast.remaining(now, next, self.bounds.max_borrow);
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        self.progress.life.store(life, Ordering::Relaxed);
        self.oldest = self.layout.first_number(self.oldest_tick());
    }

    /// Returns how long to wait before asking for the next tick again, or `None` if it may be issued now.
    fn wait_for_next(&mut self) -> Option<Duration> {
        let tick = self.next.tick;
        let waits = tick > self.last_borrowable;
        self.progress.borrowed.store(waits, Ordering::Relaxed);
        if waits {
            return self.too_far_ahead();
        }
        if self.granted == Some(tick) {
            return None;
        }
        if self.issue_horizon.check(tick).is_err() {
            // About as long as a store needs to answer.
            return Some(Duration::from_millis(1));
        }
        self.granted = Some(tick);
        None
    }

    fn too_far_ahead(&self) -> Option<Duration> {
        let limit = self.bounds.max_borrow?;
        let lead = self.layout.time_of(self.next.tick).saturating_since(self.now);
        self.progress.lead.store(lead.as_millis() as u64, Ordering::Relaxed);
        // The clock reports whole milliseconds, and the current one may end at any time. Sleeping for the full rest
        // would come later with each tick, and skip one now and then.
        let left = lead.saturating_sub(limit).saturating_sub(HALF_A_READING).max(HALF_A_READING);
        // The clock may jump, so read it at least once per refresh.
        Some(left.min(self.bounds.refresh))
    }
}

impl<C: Clock + 'static> RunSource for TickRuns<C> {
    fn oldest_fresh(&mut self) -> Option<u64> {
        if self.issue_horizon.is_lost() {
            return None;
        }
        let now = read(&self.clock);
        // Helping takers call this many times per millisecond.
        if now != self.now {
            self.update(now);
        }
        self.step_back.call_hook();
        Some(self.oldest)
    }

    fn next_run(&mut self) -> NextRun {
        let Position { tick, sequence } = self.next;
        if tick > self.layout.max_tick() {
            return NextRun::End;
        }
        if let Some(wait) = self.wait_for_next() {
            return NextRun::NotYet(wait);
        }
        self.go_to(tick + 1);
        NextRun::Part {
            first: self.layout.pack(tick, self.worker_id, sequence).get(),
            length: self.layout.uids_per_tick() - sequence,
        }
    }

    fn waits_for(&self) -> &'static str {
        match self.next.tick > self.last_borrowable {
            true => "uids are as far ahead of the clock as max_borrow allows",
            false => "the lease has to be renewed first",
        }
    }

    fn refresh_interval(&self) -> Option<Duration> {
        Some(self.bounds.refresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::layout::{Bits, Tick};
    use crate::timestamp::Timestamp;
    use std::time::Duration;

    /// Four ticks of 8 uids. The clock is at tick 0.
    fn runs(start: Position) -> (TickRuns<ManualClock>, ManualClock) {
        let bits = Bits { time: 2, worker: 1, sequence: 3 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::default());
        (TickRuns::new(layout, 1, clock.clone(), start, FREE, IssueHorizon::default()), clock)
    }

    const FREE: Bounds =
        Bounds { max_borrow: None, max_lag: None, refresh: Duration::from_millis(100) };

    /// Returns tick and sequence of the next run, which must reach the tick's end.
    fn next(runs: &mut TickRuns<ManualClock>) -> Option<(u64, u64)> {
        match runs.next_run() {
            NextRun::Part { first, length } => {
                let (tick, sequence) = tick_and_sequence(first);
                assert_eq!(sequence + length, 8);
                Some((tick, sequence))
            }
            NextRun::End => None,
            other => panic!("{other:?}"),
        }
    }

    fn tick_and_sequence(uid: u64) -> (u64, u64) {
        assert_eq!((uid >> 3) & 1, 1, "the worker");
        (uid >> 4, uid & 7)
    }

    #[test]
    fn walks_every_tick_to_its_end_and_then_ends_itself() {
        let (mut runs, _) = runs(Position { tick: 0, sequence: 0 });
        let mut all = Vec::new();
        while let Some(place) = next(&mut runs) {
            all.push(place);
        }
        let expected: Vec<_> = (0..4).map(|tick| (tick, 0)).collect();
        assert_eq!(all, expected);
        assert_eq!(next(&mut runs), None, "for good");
    }

    #[test]
    fn starts_anywhere_in_a_tick() {
        for sequence in 0..8 {
            let (mut runs, _) = runs(Position { tick: 1, sequence });
            assert_eq!(next(&mut runs), Some((1, sequence)));
            assert_eq!(next(&mut runs), Some((2, 0)));
        }
    }

    #[test]
    fn follows_the_clock_forwards_only() {
        let (mut runs, clock) = runs(Position { tick: 0, sequence: 0 });
        clock.advance(Duration::from_secs(2));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), Some((2, 0)));
        clock.set(Timestamp::from_millis(-5_000));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), Some((3, 0)));
        clock.set(Timestamp::from_millis(4_000));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), None, "there is no tick 4");
    }

    #[test]
    fn a_time_after_the_end_leaves_nothing() {
        let (mut runs, clock) = runs(Position { tick: 0, sequence: 0 });
        clock.set(Timestamp::from_millis(4_000));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), None, "though no tick was used");
    }

    #[test]
    fn borrows_up_to_the_limit_and_no_further() {
        let bits = Bits { time: 8, worker: 1, sequence: 3 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::from_millis(10_500));
        let start = Position { tick: 10, sequence: 4 };
        let bounds = Bounds { max_borrow: Some(Duration::from_millis(1_600)), ..FREE };
        let mut runs =
            TickRuns::new(layout, 1, clock.clone(), start, bounds, IssueHorizon::default());
        assert_eq!(runs.oldest_fresh(), Some(0), "nothing is ever too old");
        let all: Vec<_> = (0..3).map(|_| next(&mut runs)).collect();
        assert_eq!(all, [(10, 4), (11, 0), (12, 0)].map(Some));
        // Tick 13 is 2.5 s ahead, and allowed in 0.9 s. The wait is a refresh, because the clock may be set.
        assert_eq!(runs.next_run(), NextRun::NotYet(Duration::from_millis(100)));
        assert_eq!(runs.progress().lead(), Duration::from_millis(2_500));
        clock.advance(Duration::from_millis(850));
        runs.oldest_fresh();
        assert_eq!(runs.next_run(), NextRun::NotYet(Duration::from_micros(49_500)));
        clock.advance(Duration::from_millis(50));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), Some((13, 0)));
        // Near the layout's end, the end stops the walk, not the limit.
        clock.set(Timestamp::from_millis(255_999));
        runs.oldest_fresh();
        assert_eq!(next(&mut runs), Some((255, 0)));
        assert_eq!(runs.next_run(), NextRun::End);
    }

    #[test]
    fn knows_what_is_stale() {
        let bits = Bits { time: 8, worker: 1, sequence: 3 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::default());
        let start = Position { tick: 0, sequence: 0 };
        for (max_lag, now, oldest) in [
            (0, 0, 0),
            (0, 5_000, 5),
            // The present tick is never stale.
            (0, 5_999, 5),
            (1_000, 5_000, 4),
            (1_000, 5_001, 5),
            (2_500, 9_500, 7),
            (2_500, 9_501, 8),
            (60_000, 59_999, 0),
            // Before the epoch, and after the end.
            (1_000, -5_000, 0),
            (1_000, 256_500, 256),
        ] {
            let max_lag = Some(Duration::from_millis(max_lag));
            let bounds = Bounds { max_lag, ..FREE };
            clock.set(Timestamp::from_millis(now));
            let mut runs =
                TickRuns::new(layout, 1, clock.clone(), start, bounds, IssueHorizon::default());
            assert_eq!(runs.oldest_fresh(), Some(oldest << 4), "{max_lag:?} at {now}");
        }
    }
}
