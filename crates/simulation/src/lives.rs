//! Years of a generator's life in virtual time: random rates, idle spells, clock steps and restarts, checked against
//! what is promised. One thread does everything, so a seed determines a life.

use std::collections::HashSet;
use std::env;
use std::time::Duration;

use fastrand::Rng;
use proptest::prelude::*;
use uidring::clock::{Clock, ManualClock};
use uidring::padding::Padder;
use uidring::policy::TakePolicy;
use uidring::simulation::ELSEWHERE;
use uidring::{
    Bits, CachedUidGenerator, Error, Layout, LocalGenerator, TakeError, Tick, Timestamp, Uid,
};

/// The variable with a seed to replay.
const SEED: &str = "UIDRING_SIMULATION_SEED";

const STEPS: u32 = 120;
const DAY: u64 = 86_400_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, max_shrink_iters: 0, ..Default::default() })]
    #[test]
    fn a_life_of_random_events(seed: u64) {
        let seed = env::var(SEED).map_or(seed, |text| text.parse().expect("a number"));
        let life = std::panic::catch_unwind(|| Life::new(seed).live());
        prop_assert!(
            life.is_ok(),
            "replay: {SEED}={seed} cargo test -p uidring-simulation a_life_of_random_events"
        );
    }
}

/// Successive generators, each with a new worker id, and what they issued.
struct Life {
    rng: Rng,
    layout: Layout,
    clock: ManualClock,
    max_borrow: Option<Duration>,
    max_lag: Option<Duration>,
    refresh: Duration,
    generator: CachedUidGenerator,
    seen: HashSet<Uid>,
    last: Option<Uid>,
    /// The highest time of the clock, and its time when the padder last looked.
    highest: Timestamp,
    refreshed: Timestamp,
    /// The clock has not been set since then.
    on_time: bool,
    over: bool,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let epoch: Timestamp = "2026-01-01".parse().expect("a time");
        let tick = if rng.bool() { Tick::Second } else { Tick::Millisecond };
        // Some lives reach the end of their layout's time: a year of seconds, an hour of milliseconds.
        let (short, long) = if tick == Tick::Second { (25, 34) } else { (22, 44) };
        let time = if rng.u8(0..4) == 0 { short } else { long };
        let bits = Bits { time, worker: 10, sequence: rng.u8(1..9) };
        let layout = Layout::new(bits, tick, epoch).expect("possible");
        let clock = ManualClock::new(epoch.saturating_add(millis(rng.u64(0..DAY / 24))));
        let max_borrow = some_limit(&mut rng);
        let max_lag = some_limit(&mut rng);
        let refresh = millis(rng.u64(1..500));
        let generator = Self::build(&layout, 0, max_borrow, max_lag, refresh, &clock, &mut rng)
            .expect("the time has just begun");
        let now = clock.now();
        Self {
            rng,
            layout,
            clock,
            max_borrow,
            max_lag,
            refresh,
            generator,
            seen: HashSet::new(),
            last: None,
            highest: now,
            refreshed: now,
            on_time: true,
            over: false,
        }
    }

    fn build(
        layout: &Layout,
        worker_id: u64,
        max_borrow: Option<Duration>,
        max_lag: Option<Duration>,
        refresh: Duration,
        clock: &ManualClock,
        rng: &mut Rng,
    ) -> Result<CachedUidGenerator, Error> {
        CachedUidGenerator::builder()
            .layout(*layout)
            .worker_id(worker_id)
            .namespace(ELSEWHERE)
            .boost_power(rng.u32(1..6))
            .padding_factor(rng.u32(1..100))
            .max_borrow(max_borrow)
            .max_lag(max_lag)
            .refresh(refresh)
            .take_policy(TakePolicy::Reject)
            .clock(clock.clone())
            .padder(&Padder::by_hand())
            .build()
    }

    fn live(mut self) {
        for _ in 0..STEPS {
            match self.rng.u8(0..20) {
                0..6 => self.take_some(),
                6..8 => self.fill(),
                8..11 => self.take_locally(),
                // A short while; the padder looks now and then.
                11..15 => {
                    let steps = self.rng.u32(1..20);
                    for _ in 0..steps {
                        self.pass();
                    }
                }
                // A long while, in which the padder has looked regularly.
                15..17 => {
                    let idle = millis(self.rng.u64(0..100 * DAY));
                    self.clock.advance(idle);
                    self.look();
                    self.pass();
                }
                // Someone sets the clock, a little or by days, or the machine was suspended.
                17 => {
                    let most = if self.rng.bool() { 5_000 } else { 30 * DAY };
                    let step = self.rng.u64(0..most) as i64;
                    let step = if self.rng.bool() { step } else { -step };
                    let now = self.clock.now().as_millis() + step;
                    self.clock.set(Timestamp::from_millis(now));
                    self.highest = self.highest.max(self.clock.now());
                    self.on_time = false;
                    if self.rng.bool() {
                        self.look();
                    }
                }
                18 => self.look(),
                _ => self.start_again(),
            }
        }
    }

    /// Lets time pass, at most as long as the padder sleeps.
    fn pass(&mut self) {
        self.clock.advance(self.refresh.mul_f64(self.rng.f64()));
        if self.on_time && self.clock.now() > self.refreshed.saturating_add(self.refresh) {
            self.look();
        }
        self.highest = self.highest.max(self.clock.now());
    }

    fn look(&mut self) {
        self.highest = self.highest.max(self.clock.now());
        self.generator.service();
        self.refreshed = self.clock.now();
        self.on_time = true;
    }

    fn advance_and_look(&mut self, time: Duration, generator: &CachedUidGenerator) {
        self.clock.advance(time);
        self.highest = self.highest.max(self.clock.now());
        generator.service();
        self.refreshed = self.clock.now();
        self.on_time = true;
    }

    fn start_again(&mut self) {
        let worker_id = self.generator.worker_id() + 1;
        let Self { layout, max_borrow, max_lag, refresh, clock, rng, .. } = self;
        match Self::build(layout, worker_id, *max_borrow, *max_lag, *refresh, clock, rng) {
            Ok(generator) => {
                self.generator = generator;
                self.last = None;
                self.over = false;
                self.refreshed = self.clock.now();
                self.on_time = true;
                // A new process's clock remembers nothing.
                self.highest = self.clock.now();
            }
            Err(Error::ClockBeforeEpoch { .. }) => {
                assert!(self.clock.now() < self.layout.epoch());
            }
            Err(Error::LayoutExhausted { .. }) => {
                assert!(self.clock.now() > self.layout.last_instant());
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn take_some(&mut self) {
        for _ in 0..self.rng.u32(1..200) {
            let before = self.generator.stats();
            match self.generator.try_next_uid() {
                Ok(uid) => {
                    let time = self.time_of(uid);
                    let now = self.clock.now();
                    if before.ring.available > 0 {
                        assert_eq!(before.lead, time.saturating_since(now));
                        assert_eq!(before.lag, now.saturating_since(time));
                    }
                    assert_eq!(self.generator.stats().taken, before.taken + 1);
                    self.accept_next(uid);
                }
                Err(error) => return self.accept_error(error),
            }
        }
    }

    fn fill(&mut self) {
        let mut uids = vec![Uid::default(); self.rng.usize(1..3_000)];
        let done = self.generator.fill(&mut uids);
        let filled = done.map_or_else(|error| error.filled, |()| uids.len());
        for &uid in &uids[..filled] {
            self.accept_next(uid);
        }
        if let Err(error) = done {
            self.accept_error(error.error);
        }
    }

    /// Takes with a handle, while time passes and others take, too.
    fn take_locally(&mut self) {
        let generator = std::mem::replace(&mut self.generator, Self::nobody());
        {
            let mut local = LocalGenerator::new(&generator);
            let mut last = None;
            for _ in 0..self.rng.u32(1..100) {
                match self.rng.u8(0..10) {
                    0 => {
                        let time = self.refresh.mul_f64(self.rng.f64());
                        self.advance_and_look(time, &generator);
                    }
                    1 => {
                        if let Ok(uid) = generator.try_next_uid() {
                            self.accept_next(uid);
                        }
                    }
                    _ => match local.next_uid() {
                        Ok(uid) => {
                            self.accept(uid);
                            assert!(last < Some(uid), "{uid} after {last:?}");
                            last = Some(uid);
                        }
                        Err(error) => {
                            self.accept_error_of(&generator, error);
                            break;
                        }
                    },
                }
            }
            // Takes after the handle's are above all that it claimed.
            self.last = self.last.max(last);
        }
        self.generator = generator;
    }

    /// A stand-in while the generator is lent out.
    fn nobody() -> CachedUidGenerator {
        CachedUidGenerator::builder()
            .worker_id(0)
            .namespace(ELSEWHERE)
            .boost_power(1)
            .clock(ManualClock::new("2026-01-01".parse().expect("a time")))
            .padder(&Padder::by_hand())
            .build()
            .expect("possible")
    }

    fn time_of(&self, uid: Uid) -> Timestamp {
        self.layout.decode(uid).expect("of the layout").timestamp
    }

    /// A uid of the generator itself is above all earlier ones.
    fn accept_next(&mut self, uid: Uid) {
        self.accept(uid);
        assert!(self.last < Some(uid), "{uid} after {:?}", self.last);
        self.last = Some(uid);
    }

    /// Checks that a uid is new, of this layout, and within the bounds.
    fn accept(&mut self, uid: Uid) {
        assert!(self.seen.insert(uid), "{uid} came twice");
        let (time, now) = (self.time_of(uid), self.clock.now());
        if let Some(limit) = self.max_borrow {
            let latest = self.highest.saturating_add(limit);
            assert!(time <= latest, "{time} is later than {latest}");
        }
        let tick = millis(self.layout.tick().millis().unsigned_abs());
        if let Some(limit) = self.max_lag.filter(|_| self.on_time) {
            // Counts from the tick's last moment, if a tick is longer than the limit.
            let behind = now.saturating_since(time);
            let most = limit.max(tick) + self.refresh;
            assert!(behind <= most, "{behind:?} behind {now}, and may be {most:?}");
        }
        assert!(!self.over, "{uid} after the end");
    }

    fn accept_error(&mut self, error: TakeError) {
        let generator = std::mem::replace(&mut self.generator, Self::nobody());
        self.accept_error_of(&generator, error);
        self.generator = generator;
    }

    fn accept_error_of(&mut self, generator: &CachedUidGenerator, error: TakeError) {
        match error {
            TakeError::BorrowLimit { lead, limit } => {
                let [lead, limit] = [lead, limit].map(Duration::from);
                assert_eq!(Some(limit), self.max_borrow);
                assert!(lead > limit, "{error}");
                // It recovers by itself once the clock has caught up.
                let wait = lead - limit;
                if self.rng.bool() && wait < millis(DAY) {
                    let step_back = self.highest.saturating_since(self.clock.now());
                    self.advance_and_look(wait + step_back, generator);
                    match generator.try_next_uid() {
                        Ok(uid) => self.accept_next(uid),
                        Err(TakeError::TimeExhausted) => self.over = true,
                        Err(error) => panic!("after the limit: {error}"),
                    }
                }
            }
            TakeError::TimeExhausted => {
                self.over = true;
                let front = generator.stats();
                assert_eq!(front.ring.available, 0, "the very last one has been issued");
            }
            other => panic!("alone, nobody meets {other:?}"),
        }
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn some_limit(rng: &mut Rng) -> Option<Duration> {
    match rng.u8(0..4) {
        0 => None,
        1 => Some(Duration::ZERO),
        2 => Some(millis(rng.u64(1..2_000))),
        _ => Some(millis(rng.u64(1..100_000))),
    }
}

/// Two workers have different clocks. If a later take got a smaller uid, the takes were no further apart than
/// docs/time.md says.
#[test]
fn uids_of_two_machines_are_in_order_but_for_the_bound() {
    let mut closest = 0.0_f64;
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let epoch: Timestamp = "2026-01-01".parse().expect("a time");
        let tick = if rng.bool() { Tick::Second } else { Tick::Millisecond };
        let bits = Bits { time: 40, worker: 10, sequence: rng.u8(1..5) };
        let layout = Layout::new(bits, tick, epoch).expect("possible");
        let [max_borrow, max_lag] = [(); 2].map(|()| millis(rng.u64(0..2_000)));
        let refresh = millis(rng.u64(1..200));
        let skew = millis(rng.u64(0..1_000));
        let start = epoch.saturating_add(millis(DAY));
        let clocks = [start, start.saturating_add(skew)].map(ManualClock::new);
        let generators: Vec<_> = (clocks.iter().zip(1..))
            .map(|(clock, worker_id)| {
                let (borrow, lag) = (Some(max_borrow), Some(max_lag));
                Life::build(&layout, worker_id, borrow, lag, refresh, clock, &mut rng)
                    .expect("possible")
            })
            .collect();
        let mut taken = Vec::new();
        for _ in 0..60 {
            // A refresh interval in two parts, with takes in between.
            let parts = [0, 1].map(|_| refresh.mul_f64(rng.f64() / 2.0));
            clocks.iter().for_each(|clock| clock.advance(parts[0]));
            for _ in 0..rng.u32(0..40) {
                let which = rng.usize(0..2);
                if let Ok(uid) = generators[which].try_next_uid() {
                    taken.push((clocks[0].now(), which, uid));
                }
            }
            clocks.iter().for_each(|clock| clock.advance(parts[1]));
            generators.iter().for_each(CachedUidGenerator::service);
        }
        let tick = millis(layout.tick().millis().unsigned_abs());
        let bound = max_borrow + max_lag.max(tick) + refresh + skew;
        for (index, (earlier, first, a)) in taken.iter().enumerate() {
            for (later, second, b) in &taken[index + 1..] {
                if first != second && a > b {
                    let apart = later.saturating_since(*earlier);
                    assert!(apart <= bound, "seed {seed}: {apart:?}, and may be {bound:?}");
                    closest = closest.max(apart.div_duration_f64(bound));
                }
            }
        }
    }
    assert!(closest > 0.5, "the bound is not far off: {closest}");
}
