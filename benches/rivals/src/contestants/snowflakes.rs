//! rs-snowflake, snowflake_me and idgenerator.

use idgenerator::{CoreIdGenerator, IdGeneratorOptions, IdInstance};
use snowflake::SnowflakeIdGenerator;
use snowflake_me::{ClockDriftStrategy, Snowflake, SnowflakeId};

use super::{Field, Shape};
use crate::promise::Promise::Increasing;
use crate::ticker::{EPOCH_MILLIS, Ticker};
use crate::work::{FILL, Work, bulk, pair, single};

pub fn enter(shape: Shape, field: &mut Field) {
    rs_snowflake(shape, field);
    snowflake_me(shape, field);
    idgenerator(shape, field);
}

fn rs_snowflake(shape: Shape, field: &mut Field) {
    const GENERATE: &str = "one thread only; its only layout: at most 4,096 ids per ms, then it \
        spins on the clock";
    const LAZY: &str = "one thread only; no cap: it never reads the clock again, and runs ahead \
        of it or falls behind";
    let new = || SnowflakeIdGenerator::new(1, 1);
    match shape {
        Shape::Single | Shape::Local => {
            field.add("rs-snowflake lazy_generate", LAZY, move || {
                single(new(), Increasing, SnowflakeIdGenerator::lazy_generate)
            });
            field.add("rs-snowflake generate", GENERATE, move || {
                single(new(), Increasing, SnowflakeIdGenerator::generate)
            });
            field.add("rs-snowflake real_time_generate", GENERATE, move || {
                single(new(), Increasing, SnowflakeIdGenerator::real_time_generate)
            });
        }
        Shape::Pair => field.skip(
            "rs-snowflake",
            "it needs `&mut self`: with a lock of the caller's around it, see the counters in a \
             mutex",
        ),
        Shape::Bulk => {
            field.add("rs-snowflake lazy_generate; loop", LAZY, move || {
                bulk((new(), Box::new([0; FILL])), Increasing, |(generator, out)| {
                    out.iter_mut().for_each(|place| *place = generator.lazy_generate());
                    &out[..]
                })
            });
            field.skip("rs-snowflake generate, real_time_generate", "no bulk call: see `single`");
        }
    }
}

fn snowflake_me(shape: Shape, field: &mut Field) {
    const OWN: &str = "38/0+1/24, drift strategy LastTimestamp: at most 16,777,216 ids per ms \
        (by default 4,096), then it spins and yields; its clock, read per call";
    const TICKED: &str = "as before, with the ticker clock as its clock source";
    const NAME: &str = "snowflake_me";
    const TICKED_NAME: &str = "snowflake_me; ticker clock";
    match shape {
        Shape::Single => {
            field.add(NAME, OWN, || single(shared(None), Increasing, |it| next(it)));
            field.add(TICKED_NAME, TICKED, || {
                single(shared(Some(Ticker::start())), Increasing, |it| next(it))
            });
        }
        Shape::Pair => {
            field.add(NAME, OWN, || pair(shared(None), Increasing, next));
            field
                .add(TICKED_NAME, TICKED, || pair(shared(Some(Ticker::start())), Increasing, next));
        }
        Shape::Bulk => {
            field.add("snowflake_me next_ids_into", OWN, || fill(shared(None)));
            field.add("snowflake_me next_ids_into; ticker clock", TICKED, || {
                fill(shared(Some(Ticker::start())))
            });
        }
        Shape::Local => field.skip(NAME, "no form for one thread: see `single`"),
    }

    fn shared(ticker: Option<Ticker>) -> Snowflake {
        let builder = Snowflake::builder()
            .start_time(EPOCH_MILLIS.cast_signed())
            .bit_len_time(38)
            .bit_len_data_center_id(0)
            .bit_len_machine_id(1)
            .bit_len_sequence(24)
            .data_center_id(&|| Ok(0))
            .machine_id(&|| Ok(1))
            // So a thread need not wait if another used a later time after this one read the clock.
            .clock_drift_strategy(ClockDriftStrategy::LastTimestamp);
        match ticker {
            Some(ticker) => builder.clock_source(move || ticker.millis().cast_signed()),
            None => builder,
        }
        .finalize()
        .expect("63 bits, and the present is within them")
    }

    #[inline]
    fn next(generator: &Snowflake) -> SnowflakeId {
        generator.next_id().expect("no limit is met within 8.7 years")
    }

    fn fill(generator: Snowflake) -> Work {
        bulk((generator, Vec::with_capacity(FILL)), Increasing, |(generator, out)| {
            out.clear();
            generator.next_ids_into(FILL, out).expect("no limit is met within 8.7 years");
            out
        })
    }
}

fn idgenerator(shape: Shape, field: &mut Field) {
    const SHARED: &str = "the process's one instance, behind a parking_lot mutex; 21 bits of \
        sequence, its most: 2,097,147 ids per ms and no wait at the cap; its clock, read per call";
    const ALONE: &str = "one thread only; 21 bits of sequence, its most: 2,097,147 ids per ms \
        and no wait at the cap; its clock, read per call";
    const INSTANCE: &str = "idgenerator IdInstance";
    let options = || IdGeneratorOptions::new().worker_id(1).worker_id_bit_len(1).seq_bit_len(21);
    let instance = move || IdInstance::init(options()).expect("22 bits are possible");
    match shape {
        Shape::Single => field.add(INSTANCE, SHARED, move || {
            instance();
            single((), Increasing, |()| IdInstance::next_id())
        }),
        Shape::Pair => field.add(INSTANCE, SHARED, move || {
            instance();
            pair((), Increasing, |()| IdInstance::next_id())
        }),
        Shape::Bulk => field.skip("idgenerator", "no bulk call: see `single`"),
        Shape::Local => field.add("idgenerator CoreIdGenerator", ALONE, move || {
            let mut generator = CoreIdGenerator::default();
            generator.init(options()).expect("22 bits are possible");
            single(generator, Increasing, CoreIdGenerator::next_id)
        }),
    }
}
