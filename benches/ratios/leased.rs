//! What a leased worker id costs a take. The store is one that always agrees, at once: its answers
//! are not in the takes.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use uidring::generator::CachedBuilder;
use uidring::padding::PadderCore;
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, Tick, Timestamp, Uid,
    UidGenerator, Worker,
};

use super::Comparison;
use super::timing::by_threads;
use uidring_testkit::namespace::fresh;

pub fn comparisons() -> impl Iterator<Item = Comparison> {
    let cached = [1, 2].map(|threads| {
        Comparison::new(
            format!("next_uid of a leased worker / of a plain one, threads: {threads}"),
            move |ids| takes(leased(), threads, ids),
            move |ids| takes(plain(), threads, ids),
        )
    });
    let clocked = Comparison::new(
        "next_uid by the clock, of a leased worker / of a plain one",
        |ids| takes(leased_by_the_clock(), 1, ids),
        |ids| takes(plain_by_the_clock(), 1, ids),
    );
    cached.into_iter().chain([clocked])
}

struct Agreeing;

impl LeaseBackend for Agreeing {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

fn lease(layout: Layout) -> Worker {
    let mut terms = LeaseTerms::default();
    terms.lasts = Some(Duration::from_secs(30));
    Lease::new(layout, 1, None, terms, Agreeing).expect("in range").into()
}

/// A run gets ten hours ahead of the clock, of the years that the default layout has. Without
/// `max_borrow`, a leased worker stops at ten minutes.
fn builder() -> CachedBuilder {
    let decades = Duration::from_secs(100 * 365 * 86_400);
    CachedUidGenerator::builder().max_borrow(decades).padder_core(PadderCore::Last)
}

fn plain() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| builder().worker_id(1).namespace(fresh()).build().expect("builds"))
}

fn leased() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| {
        let worker = lease(Layout::UID_GENERATOR);
        builder().worker(worker).namespace(fresh()).build().expect("builds")
    })
}

/// So many uids a millisecond that nobody waits for the next one.
fn wide() -> Layout {
    let bits = Bits { time: 42, worker: 1, sequence: 20 };
    Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible")
}

fn plain_by_the_clock() -> &'static ClockedUidGenerator {
    static GENERATOR: OnceLock<ClockedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| by_the_clock(1.into()))
}

fn leased_by_the_clock() -> &'static ClockedUidGenerator {
    static GENERATOR: OnceLock<ClockedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| by_the_clock(lease(wide())))
}

fn by_the_clock(worker: Worker) -> ClockedUidGenerator {
    let builder = ClockedUidGenerator::snowflake().layout(wide());
    builder.worker(worker).namespace(fresh()).build().expect("builds")
}

fn takes(generator: &(impl UidGenerator + Sync), threads: u64, ids: u64) -> f64 {
    by_threads(threads, ids, |count| {
        for _ in 0..count {
            black_box(generator.next_uid().expect("waits"));
        }
    })
}
