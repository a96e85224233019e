//! Ids of 128 bits, mostly random: uuid's version 7, and ulid.

use std::time::{Duration, SystemTime};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use ulid::{Generator, Ulid};
use uuid::{ContextV7, NoContext, Timestamp, Uuid};

use super::{Field, Shape};
use crate::promise::Promise::{Increasing, Unique};
use crate::ticker::Ticker;
use crate::work::{pair, single};

pub fn enter(shape: Shape, field: &mut Field) {
    uuid(shape, field);
    ulid(shape, field);
}

/// The ticker's time as a version 7 UUID takes it.
#[inline]
fn ticked(ticker: &Ticker, context: impl uuid::ClockSequence<Output = impl Into<u128>>) -> Uuid {
    let millis = ticker.millis();
    let nanos = (millis % 1_000) as u32 * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(context, millis / 1_000, nanos))
}

fn uuid(shape: Shape, field: &mut Field) {
    const SHARED: &str = "128 bits, fast-rng; the process's one monotonic context, behind a std \
        mutex; no cap";
    const RANDOM: &str = "128 bits, fast-rng; the ticker clock; in no order within a ms; no cap";
    const CONTEXT: &str = "one thread only; 128 bits, fast-rng; its own monotonic context; no cap";
    const TICKED: &str = "as before, with the ticker clock";
    let loose = |ticker: &Ticker| ticked(ticker, NoContext);
    match shape {
        Shape::Single => {
            field.add("uuid now_v7", SHARED, || single((), Increasing, |()| Uuid::now_v7()));
            field.add("uuid new_v7 NoContext; ticker clock", RANDOM, move || {
                single(Ticker::start(), Unique, move |ticker| loose(ticker))
            });
        }
        Shape::Pair => {
            field.add("uuid now_v7", SHARED, || pair((), Increasing, |()| Uuid::now_v7()));
            field.add("uuid new_v7 NoContext; ticker clock", RANDOM, move || {
                pair(Ticker::start(), Unique, loose)
            });
            field.skip("uuid ContextV7", "it is not `Sync`: behind a mutex it is `now_v7`");
        }
        Shape::Bulk => field.skip("uuid", "no bulk call: see `single`"),
        Shape::Local => {}
    }
    if let Shape::Single | Shape::Local = shape {
        field.add("uuid new_v7 ContextV7", CONTEXT, || {
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
    const TICKED: &str = "as before, with the ticker clock";
    const SMALL_NAME: &str = "ulid with_source; SmallRng";
    const GENERATOR: &str = "ulid Generator";
    const NO_OVERFLOW: &str = "80 random bits do not overflow by counting within a ms";
    match shape {
        Shape::Single => {
            field.add("ulid generate", PLAIN, || single((), Unique, |()| Ulid::generate()));
        }
        Shape::Pair => {
            field.add("ulid generate", PLAIN, || pair((), Unique, |()| Ulid::generate()));
            field.skip(GENERATOR, "it needs `&mut self`");
        }
        Shape::Bulk => field.skip("ulid", "no bulk call: see `single`"),
        Shape::Local => {}
    }
    if let Shape::Single | Shape::Local = shape {
        field.add(SMALL_NAME, SMALL, || {
            single(SmallRng::seed_from_u64(1), Unique, Ulid::with_source)
        });
        field.add(GENERATOR, MONOTONIC, || {
            single(Generator::new(), Increasing, |it| it.generate().expect(NO_OVERFLOW))
        });
        field.add("ulid Generator; ticker clock", TICKED, || {
            single((Ticker::start(), Generator::new()), Increasing, |(ticker, it)| {
                let now = SystemTime::UNIX_EPOCH + Duration::from_millis(ticker.millis());
                it.generate_from_datetime(now).expect(NO_OVERFLOW)
            })
        });
    }
}
