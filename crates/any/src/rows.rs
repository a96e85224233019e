//! The options of generators and worker ids. The engines' crates have the options of stores.

use std::time::Duration;

use uidring::policy::TakePolicy;
use uidring_store::options::{Kind, Owner, Row};
use uidring_store::values::{CENTURY, time};

use crate::layout;

pub static GENERATOR: Row = Row::new(
    "generator",
    Kind::Words(&["cached", "clock", "snowflake", "leaf-snowflake", "segment"]),
    "Which generator. `cached` takes from a ring that a thread keeps full. `clock`, `snowflake` and `leaf-snowflake` read the clock at each \
     take, as Baidu's DefaultUidGenerator, Twitter's Snowflake and Leaf do. `segment` counts up by `tag`",
)
.default("cached; segment with `tag`");

pub static TAG: Row =
    Row::new("tag", Kind::Text, "Take the numbers of this tag, which has to exist");

pub static LAYOUT: Row = Row::new(
    "layout",
    Kind::Form { form: layout::FORM, check: |text| layout::read(text).map(|_| ()) },
    "How the bits of a uid are divided into time, worker id and sequence. Widths alone count seconds since 2026. `leaf` is \
     `snowflake`, shown without datacenters",
)
.default("uid; snowflake with generator=snowflake and leaf-snowflake");

pub static NAMESPACE: Row = Row::new(
    "namespace",
    Kind::Text,
    "The uids that must differ from each other. Give generators whose uids are never compared a namespace each",
)
.default("one that all generators of a layout share");

pub static BOOST_POWER: Row = Row::new(
    "boost-power",
    Kind::Number(1..=16),
    "The ring holds (max sequence + 1) << N uids, at most 2^29",
)
.default("3");

pub static MAX_BORROW: Row = Row::new(
    "max-borrow",
    Kind::Time(Duration::ZERO..=CENTURY),
    "How far uids may be ahead of the clock",
)
.default("no limit; 10m if leased; 1h in serve");

pub static MAX_LAG: Row = Row::new(
    "max-lag",
    Kind::Time(Duration::ZERO..=CENTURY),
    "How far uids may be behind the clock; older ones are discarded",
)
.default("1s");

pub static ORDER: Row = Row::new(
    "order",
    Kind::Words(&["ordered", "per-thread"]),
    "The order of uids over all threads. `ordered`: if one take returns before another begins, its uid is smaller. \
     `per-thread`: each thread takes blocks of up to 255 uids, which costs less with many threads, and the uids of one thread \
     increase",
)
.default("ordered");

pub static MAX_START_WAIT: Row = Row::new(
    "max-start-wait",
    Kind::Time(Duration::ZERO..=CENTURY),
    "How long a start may wait for the clock to pass what was issued before",
)
.default("30s; with a lease, longer after a crash");

pub static ON_CLOCK_BACK: Row = Row::new(
    "on-clock-back",
    Kind::Words(&["stay-ahead", "new-worker-id"]),
    "When the clock is set back: keep the worker id and stay ahead of the clock, or get a new worker id and follow the clock",
)
.default("stay-ahead");

/// How to write `take`.
const TAKE_FORM: &str = "`wait`, `fail`, or a time such as `500ms`";

pub static TAKE: Row = Row::new(
    "take",
    Kind::Form { form: TAKE_FORM, check: |text| policy(text).map(|_| ()) },
    "What a take does if no id is ready: wait, fail at once, or wait for so long at most. Not for `uidring serve`, \
     which has --wait",
)
.default("wait");

pub static WORKER: Row = Row::new(
    "worker",
    Kind::Words(&["disposable", "lease", "ordinal"]),
    "Where the worker id comes from. `disposable`: each start uses one up. `lease`: hold one, renew it, and give it back. `ordinal`: that of this pod \
     in its StatefulSet, with SQLite on the pod's volume",
)
.default("lease if the layout has fewer than 100,000 worker ids, else disposable");

pub static LEASE: Row = Row::new(
    "lease",
    Kind::Time(Duration::from_secs(1)..=Duration::from_secs(3_600)),
    "How long a lease lasts unless it is renewed",
)
.default("30s");

pub static LEASE_WAIT: Row = Row::new(
    "lease-wait",
    Kind::Time(Duration::ZERO..=CENTURY),
    "How long to wait for a worker id when all are held",
)
.default("0s");

pub static ORDINAL_OFFSET: Row = Row::new(
    "ordinal-offset",
    Kind::Number(0..=u64::MAX),
    "Added to the ordinal, so that several StatefulSets share a layout",
)
.default("0");

/// The generators and their options.
pub static GENERATORS: [&Owner; 3] = [&CACHED, &CLOCKED, &SEGMENT];

pub static CACHED: Owner = owner(
    "generator=cached",
    &[
        &GENERATOR,
        &LAYOUT,
        &NAMESPACE,
        &BOOST_POWER,
        &MAX_BORROW,
        &MAX_LAG,
        &ORDER,
        &MAX_START_WAIT,
        &ON_CLOCK_BACK,
        &TAKE,
    ],
);

pub static CLOCKED: Owner =
    owner("generators on the clock", &[&GENERATOR, &LAYOUT, &NAMESPACE, &MAX_START_WAIT, &TAKE]);

pub static SEGMENT: Owner = owner("generator=segment", &[&GENERATOR, &TAG, &TAKE]);

/// The options that are also flags of programs.
pub static FLAGS: [&Row; 5] = [&GENERATOR, &TAG, &LAYOUT, &MAX_BORROW, &WORKER];

/// The kinds of worker ids and their options.
pub static WORKERS: [&Owner; 3] = [&DISPOSABLE, &LEASED, &ORDINAL];

pub static DISPOSABLE: Owner = owner("worker=disposable", &[&WORKER]);

pub static LEASED: Owner = owner("worker=lease", &[&WORKER, &LEASE, &LEASE_WAIT]);

pub static ORDINAL: Owner =
    owner("worker=ordinal", &[&WORKER, &LEASE, &LEASE_WAIT, &ORDINAL_OFFSET]);

/// Returns an owner without other clients' parameters.
pub const fn owner(name: &'static str, rows: &'static [&'static Row]) -> Owner {
    Owner { name, rows, harmless: &[], refused: &[] }
}

/// Reads the value of [`TAKE`].
pub fn policy(text: &str) -> Result<TakePolicy, String> {
    match text {
        "wait" => Ok(TakePolicy::Wait),
        "fail" => Ok(TakePolicy::Reject),
        _ => {
            let limit = time(Duration::ZERO..=CENTURY)(text);
            limit.map(TakePolicy::WaitFor).map_err(|_| format!("write {TAKE_FORM}"))
        }
    }
}
