//! Ids of 128 bits, mostly random: uuid's version 7, and ulid.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::SmallRng;
use ulid::{Generator, Ulid};
use uuid::timestamp::context::ThreadLocalContext;
use uuid::{Builder, ClockSequence, ContextV7, NoContext, Timestamp, Uuid};

use super::{Field, Shape};
use crate::promise::Promise::{Increasing, Unique};
use crate::ticker::Ticker;
use crate::work::{pair, single};

pub fn enter(shape: Shape, field: &mut Field) {
    uuid(shape, field);
    ulid(shape, field);
}

thread_local! {
    static SMALL_RNG: RefCell<SmallRng> = RefCell::new(rand::make_rng());
    static CONTEXT_V7: ContextV7 = const { ContextV7::new() };
}

/// Returns a version 7 UUID with the ticker's time.
#[inline]
fn ticked(ticker: &Ticker, context: impl ClockSequence<Output = impl Into<u128>>) -> Uuid {
    let millis = ticker.millis();
    let nanos = (millis % 1_000) as u32 * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(context, millis / 1_000, nanos))
}

/// Like `ticked`, without a context and with the caller's random bits, which `new_v7` does not accept.
#[inline]
fn built(ticker: &Ticker, random: &mut SmallRng) -> Uuid {
    let bytes = random.random::<u128>().to_ne_bytes();
    let bytes = bytes.first_chunk().expect("16 bytes are enough");
    Builder::from_unix_timestamp_millis(ticker.millis(), bytes).into_uuid()
}

/// A context for all threads. uuid's own, std's `Mutex<ContextV7>`, locks twice per id.
struct SharedContext {
    context: Mutex<ContextV7>,
    usable_bits: usize,
}

impl SharedContext {
    fn new() -> Self {
        let context = ContextV7::new();
        Self { usable_bits: context.usable_bits(), context: Mutex::new(context) }
    }
}

impl ClockSequence for SharedContext {
    type Output = u64;

    fn generate_sequence(&self, seconds: u64, nanos: u32) -> u64 {
        self.context.lock().generate_sequence(seconds, nanos)
    }

    fn generate_timestamp_sequence(&self, seconds: u64, nanos: u32) -> (u64, u64, u32) {
        self.context.lock().generate_timestamp_sequence(seconds, nanos)
    }

    fn usable_bits(&self) -> usize {
        self.usable_bits
    }
}

fn uuid(shape: Shape, field: &mut Field) {
    const SHARED: &str = "128 bits, fast-rng; the process's one monotonic context, behind a std \
        mutex; no cap";
    const RANDOM: &str = "128 bits, fast-rng; the ticker clock; in no order within a ms; no cap";
    const SMALL_RANDOM: &str = "as before, with a small random number generator of the thread's";
    const LOCKED: &str = "128 bits, fast-rng; a monotonic context behind a parking_lot mutex; the \
        ticker clock; no cap";
    const PER_THREAD: &str = "as before, with a context per thread: in order within a thread";
    const CONTEXT_OF_ONE: &str = "one thread only; 128 bits, fast-rng; its own monotonic context; \
        no cap";
    const TICKED: &str = "as before, with the ticker clock";
    const RANDOM_NAME: &str = "uuid new_v7 NoContext; ticker clock";
    const LOCKED_NAME: &str = "uuid new_v7 ContextV7; in a mutex; ticker clock";
    const PER_THREAD_NAME: &str = "uuid new_v7 ContextV7; per thread; ticker clock";
    let random = |ticker: &Ticker| ticked(ticker, NoContext);
    let locked =
        |(ticker, context): &(Ticker, CachePadded<SharedContext>)| ticked(ticker, &**context);
    let per_thread = |ticker: &Ticker| ticked(ticker, ThreadLocalContext::new(&CONTEXT_V7));
    let locked_state = || (Ticker::start(), CachePadded::new(SharedContext::new()));
    match shape {
        Shape::Single => {
            field.add("uuid now_v7", SHARED, || single((), Increasing, |()| Uuid::now_v7()));
            field.add(RANDOM_NAME, RANDOM, move || {
                single(Ticker::start(), Unique, move |ticker| random(ticker))
            });
            field.add("uuid Builder; SmallRng; ticker clock", SMALL_RANDOM, || {
                single((Ticker::start(), rand::make_rng()), Unique, |(ticker, small)| {
                    built(ticker, small)
                })
            });
            field.add(LOCKED_NAME, LOCKED, move || {
                single(locked_state(), Increasing, move |it| locked(it))
            });
            field.add(PER_THREAD_NAME, PER_THREAD, move || {
                single(Ticker::start(), Increasing, move |ticker| per_thread(ticker))
            });
        }
        Shape::Pair => {
            field.add("uuid now_v7", SHARED, || pair((), Increasing, |()| Uuid::now_v7()));
            field.add(RANDOM_NAME, RANDOM, move || pair(Ticker::start(), Unique, random));
            field.add("uuid Builder; SmallRng per thread; ticker clock", SMALL_RANDOM, || {
                pair(Ticker::start(), Unique, |ticker| {
                    SMALL_RNG.with_borrow_mut(|small| built(ticker, small))
                })
            });
            field.add(LOCKED_NAME, LOCKED, move || pair(locked_state(), Increasing, locked));
            field.add(PER_THREAD_NAME, PER_THREAD, move || {
                pair(Ticker::start(), Increasing, per_thread)
            });
        }
        Shape::Bulk => field.skip("uuid", "no bulk call: see `single`"),
        Shape::Local => {}
    }
    if let Shape::Single | Shape::Local = shape {
        field.add("uuid new_v7 ContextV7", CONTEXT_OF_ONE, || {
            single(ContextV7::new(), Increasing, |context| Uuid::new_v7(Timestamp::now(&*context)))
        });
        field.add("uuid new_v7 ContextV7; ticker clock", TICKED, || {
            single((Ticker::start(), ContextV7::new()), Increasing, |(ticker, context)| {
                ticked(ticker, &*context)
            })
        });
    }
}

fn ulid(shape: Shape, field: &mut Field) {
    const PLAIN: &str = "128 bits, the thread's cryptographic random numbers; in no order within \
        a ms; its clock, read per call; no cap";
    const SMALL: &str = "one thread only; as plain, with a small random number generator";
    const MONOTONIC: &str = "one thread only; 128 bits, increments within a ms; its clock, read \
        per call; no cap";
    const LOCKED: &str = "128 bits, increments within a ms; a parking_lot mutex around it; the \
        ticker clock; no cap";
    const TICKED: &str = "as before, with the ticker clock";
    const SMALL_PER_THREAD: &str =
        "as before, with a small random number generator of the thread's";
    const GENERATOR: &str = "ulid Generator";
    const TICKED_NAME: &str = "ulid from_datetime; ticker clock";
    const NO_OVERFLOW: &str = "80 random bits do not overflow by counting within a ms";
    let now = |ticker: &Ticker| SystemTime::UNIX_EPOCH + Duration::from_millis(ticker.millis());
    let plain = move |ticker: &Ticker| Ulid::from_datetime(now(ticker));
    let small = move |ticker: &Ticker, source: &mut SmallRng| {
        Ulid::from_datetime_with_source(now(ticker), source)
    };
    let monotonic = move |ticker: &Ticker, generator: &mut Generator, source: &mut SmallRng| {
        generator.generate_from_datetime_with_source(now(ticker), source).expect(NO_OVERFLOW)
    };
    match shape {
        Shape::Single => {
            field.add("ulid generate", PLAIN, || single((), Unique, |()| Ulid::generate()));
            field.add(TICKED_NAME, TICKED, move || {
                single(Ticker::start(), Unique, move |ticker| plain(ticker))
            });
        }
        Shape::Pair => {
            field.add("ulid generate", PLAIN, || pair((), Unique, |()| Ulid::generate()));
            field.add(TICKED_NAME, TICKED, move || pair(Ticker::start(), Unique, plain));
            field.add(
                "ulid from_datetime; SmallRng per thread; ticker clock",
                SMALL_PER_THREAD,
                move || {
                    pair(Ticker::start(), Unique, move |ticker| {
                        SMALL_RNG.with_borrow_mut(|source| small(ticker, source))
                    })
                },
            );
            field.add("ulid Generator; in a mutex; SmallRng; ticker clock", LOCKED, move || {
                let locked = CachePadded::new(Mutex::new((Generator::new(), rand::make_rng())));
                pair((Ticker::start(), locked), Increasing, move |(ticker, locked)| {
                    let (generator, source) = &mut *locked.lock();
                    monotonic(ticker, generator, source)
                })
            });
        }
        Shape::Bulk => field.skip("ulid", "no bulk call: see `single`"),
        Shape::Local => {}
    }
    if let Shape::Single | Shape::Local = shape {
        field.add("ulid with_source; SmallRng", SMALL, || {
            single(rand::make_rng::<SmallRng>(), Unique, Ulid::with_source)
        });
        field.add("ulid from_datetime; SmallRng; ticker clock", TICKED, move || {
            single((Ticker::start(), rand::make_rng()), Unique, move |(ticker, source)| {
                small(ticker, source)
            })
        });
        field.add(GENERATOR, MONOTONIC, || {
            single(Generator::new(), Increasing, |it| it.generate().expect(NO_OVERFLOW))
        });
        field.add("ulid Generator; SmallRng; ticker clock", TICKED, move || {
            let state = (Ticker::start(), Generator::new(), rand::make_rng());
            single(state, Increasing, move |(ticker, generator, source)| {
                monotonic(ticker, generator, source)
            })
        });
    }
}
