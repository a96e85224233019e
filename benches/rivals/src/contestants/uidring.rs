//! uidring itself, with default settings.

use std::sync::Arc;

use uidring::clock::{Clock, SystemClock, TickerClock};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Layout, PerThreadGenerator, Tick, Timestamp,
    Uid, UidGenerator,
};

use super::{Field, Shape};
use crate::namespace::fresh;
use crate::promise::Promise::Increasing;
use crate::ticker::EPOCH_MILLIS;
use crate::work::{FILL, Work, bulk, pair, single};

pub const CACHED: &str = "uidring CachedUidGenerator";
pub const CACHED_FILL: &str = "uidring CachedUidGenerator fill";
pub const LOCAL: &str = "uidring local";

const DEFAULTS: &str = "default layout and ring; no cap: it borrows ticks of the future";
const CLOCKED: &str = "38/1/24 in ms: at most 16,777,216 ids per ms; its clock, read per call";
const TICKED: &str = "as before, with uidring's ticker clock";
const PER_THREAD: &str = "each thread takes 255 at a time from the same generator, which is in order \
    within a thread";

/// A waiting take fails only after the layout's last instant.
const IN_TIME: &str = "the layout's time is not over";

fn cached() -> CachedUidGenerator {
    // The uids of the generators are never compared. With worker 0 the padder is on the last core; takers are pinned
    // from the first on.
    CachedUidGenerator::builder()
        .worker_id(0)
        .namespace(fresh())
        .build()
        .expect("the defaults are possible")
}

fn clocked<C: Clock>(clock: C) -> ClockedUidGenerator<C> {
    let epoch = Timestamp::from_millis(EPOCH_MILLIS.cast_signed());
    let bits = Bits { time: 38, worker: 1, sequence: 24 };
    let layout = Layout::new(bits, Tick::Millisecond, epoch).expect("63 bits");
    ClockedUidGenerator::snowflake()
        .layout(layout)
        .worker_id(1)
        .namespace(fresh())
        .clock(clock)
        .build()
        .expect("the present is within the layout")
}

fn ticker() -> TickerClock {
    TickerClock::start().expect("a thread")
}

fn per_thread() -> PerThreadGenerator<Arc<CachedUidGenerator>> {
    PerThreadGenerator::new(Arc::new(cached()))
}

#[inline]
fn next(generator: &impl UidGenerator) -> Uid {
    generator.next_uid().expect(IN_TIME)
}

fn fill(generator: impl UidGenerator + 'static) -> Work {
    bulk((generator, Box::new([Uid::default(); FILL])), Increasing, |(generator, out)| {
        generator.fill(&mut out[..]).expect(IN_TIME);
        &out[..]
    })
}

/// The single-threaded form.
fn local() -> Work {
    // Leaked, so that a local form can borrow from it. Afterwards its padder sleeps.
    let generator: &'static CachedUidGenerator = Box::leak(Box::new(cached()));
    let local = generator.local();
    single(local, Increasing, |local| local.next_uid().expect(IN_TIME))
}

pub fn enter(shape: Shape, field: &mut Field) {
    const PER_THREAD_NAME: &str = "uidring PerThreadGenerator";
    const CLOCKED_NAME: &str = "uidring ClockedUidGenerator";
    const TICKED_NAME: &str = "uidring ClockedUidGenerator; ticker clock";
    match shape {
        Shape::Single => {
            field.add(CACHED, DEFAULTS, || single(cached(), Increasing, |shared| next(shared)));
            field.add(PER_THREAD_NAME, PER_THREAD, || {
                single(per_thread(), Increasing, |shared| shared.next_uid().expect(IN_TIME))
            });
            field.add(CLOCKED_NAME, CLOCKED, || {
                single(clocked(SystemClock), Increasing, |shared| next(shared))
            });
            field.add(TICKED_NAME, TICKED, || {
                single(clocked(ticker()), Increasing, |shared| next(shared))
            });
        }
        Shape::Pair => {
            field.add(CACHED, DEFAULTS, || pair(cached(), Increasing, next));
            field.add(PER_THREAD_NAME, PER_THREAD, || {
                pair(per_thread(), Increasing, |shared| shared.next_uid().expect(IN_TIME))
            });
            field.add(CLOCKED_NAME, CLOCKED, || pair(clocked(SystemClock), Increasing, next));
            field.add(TICKED_NAME, TICKED, || pair(clocked(ticker()), Increasing, next));
        }
        Shape::Bulk => {
            field.add(CACHED_FILL, DEFAULTS, || fill(cached()));
            field.add("uidring ClockedUidGenerator fill", CLOCKED, || fill(clocked(SystemClock)));
        }
        Shape::Local => {
            field.add(LOCAL, "LocalGenerator: 255 at a time", local);
        }
    }
}
