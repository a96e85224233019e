//! ferroid: one snowflake state machine behind a cell, a lock or an atomic word.

use std::hint::spin_loop;
use std::sync::Arc;
use std::thread::yield_now;

use ferroid::define_snowflake_id;
use ferroid::generator::{
    AtomicSnowflakeGenerator, BasicSnowflakeGenerator, LockSnowflakeGenerator,
};
use ferroid::id::SnowflakeId;
use ferroid::time::{MonotonicClock, TimeSource};

use super::{Field, Shape};
use crate::promise::Promise::{Consecutive, Increasing};
use crate::ticker::since_2026;
use crate::work::{FILL, bulk, pair, single};

// 8.7 years, two machines, and more ids a millisecond than anyone takes.
define_snowflake_id!(Wide, u64, reserved: 1, timestamp: 38, machine_id: 1, sequence: 24);

// For a stopped clock: only the sequence matters.
define_snowflake_id!(Endless, u64, reserved: 1, timestamp: 1, machine_id: 1, sequence: 61);

/// A free clock that never moves, to measure the state machine alone. Useless in practice, because its ids have no
/// time.
struct Frozen;

impl TimeSource<u64> for Frozen {
    fn current_millis(&self) -> u64 {
        1
    }
}

type Basic<I, C> = BasicSnowflakeGenerator<I, C>;
type Atomic<I, C> = AtomicSnowflakeGenerator<I, C>;
type Lock<I, C> = LockSnowflakeGenerator<I, C>;

// `next_id` calls its last argument when the sequence is used up, which these layouts avoid, and when another thread
// was faster. A lone thread never causes a call.

#[inline]
fn basic<I: SnowflakeId<Ty = u64>>(generator: &Basic<I, impl TimeSource<u64>>) -> u64 {
    generator.next_id(|_| spin_loop()).to_raw()
}

#[inline]
fn lock(generator: &Lock<Wide, MonotonicClock>) -> u64 {
    generator.next_id(|_| spin_loop()).to_raw()
}

/// The loser of a race retries at once.
#[inline]
fn spinning<I: SnowflakeId<Ty = u64>>(generator: &Atomic<I, impl TimeSource<u64>>) -> u64 {
    generator.next_id(|_| spin_loop()).to_raw()
}

/// The loser of a race yields for the time of a system call, so the threads alternate in bursts instead of racing for
/// every id.
#[inline]
fn yielding<I: SnowflakeId<Ty = u64>>(generator: &Atomic<I, impl TimeSource<u64>>) -> u64 {
    generator.next_id(|_| yield_now()).to_raw()
}

pub fn enter(shape: Shape, field: &mut Field) {
    const WIDE: &str = "own layout 38/1/24, its ticker clock: at most 16,777,216 ids per ms \
        (SnowflakeTwitterId: 4,096), then its caller waits";
    const FROZEN: &str = "bound, not usable: a clock that never moves, 61 bits of sequence";
    const ALONE: &str = "one thread only; own layout 38/1/24, its ticker clock: at most \
        16,777,216 ids per ms (SnowflakeTwitterId: 4,096), then its caller waits";
    const YIELDS: &str = "as before; a thread that lost a race yields: the threads take turns in \
        bursts";
    if let Shape::Single | Shape::Local = shape {
        field.add("ferroid basic", ALONE, || {
            single(Basic::<Wide, _>::new(0, since_2026()), Increasing, |it| basic(it))
        });
        field.add("ferroid basic; frozen clock", FROZEN, || {
            single(Basic::<Endless, _>::new(0, Frozen), Consecutive, |it| basic(it))
        });
    }
    match shape {
        Shape::Single => {
            field.add("ferroid atomic", WIDE, || {
                let shared = Arc::new(Atomic::<Wide, _>::new(0, since_2026()));
                single(shared, Increasing, |it| spinning(it))
            });
            field.add("ferroid atomic; frozen clock", FROZEN, || {
                let shared = Arc::new(Atomic::<Endless, _>::new(0, Frozen));
                single(shared, Consecutive, |it| spinning(it))
            });
            field.add("ferroid lock", WIDE, || {
                single(Lock::new(0, since_2026()), Increasing, |it| lock(it))
            });
        }
        Shape::Pair => {
            field.add("ferroid atomic; spinning", WIDE, || {
                pair(Atomic::<Wide, _>::new(0, since_2026()), Increasing, spinning)
            });
            field.add("ferroid atomic; yielding", YIELDS, || {
                pair(Atomic::<Wide, _>::new(0, since_2026()), Increasing, yielding)
            });
            field.add("ferroid atomic; yielding; frozen clock", FROZEN, || {
                pair(Atomic::<Endless, _>::new(0, Frozen), Increasing, yielding)
            });
            field.add("ferroid lock", WIDE, || pair(Lock::new(0, since_2026()), Increasing, lock));
            field.skip("ferroid basic", "it is not `Sync`");
        }
        Shape::Bulk => {
            field.add("ferroid basic; loop", ALONE, || {
                let state = (Basic::<Wide, _>::new(0, since_2026()), Box::new([0; FILL]));
                bulk(state, Increasing, |(generator, out)| {
                    out.iter_mut().for_each(|place| *place = basic(generator));
                    &out[..]
                })
            });
            field.skip("ferroid lock and atomic", "no bulk call: see `single`");
        }
        Shape::Local => {}
    }
}
