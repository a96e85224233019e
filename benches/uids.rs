//! What single operations cost, with a bare `fetch_add` in the same report. Every benchmark
//! asserts that what it measured did its work.
//!
//! Under load from elsewhere on the machine, `ratios` tells more.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use uidring::clock::ManualClock;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Fields, Layout, Tick, Timestamp, Uid,
};
use uidring_testkit::namespace::fresh;

/// So wide that the benchmarks do not come to its end.
fn wide(sequence: u8) -> Layout {
    let bits = Bits { time: 58 - sequence, worker: 5, sequence };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

fn cached() -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(wide(13))
        .worker_id(1)
        .namespace(fresh())
        .build()
        .expect("builds")
}

fn taking(c: &mut Criterion) {
    let mut group = c.benchmark_group("take");
    group.throughput(Throughput::Elements(1));

    let counter = CachePadded::new(AtomicU64::new(0));
    group.bench_function("fetch_add", |b| b.iter(|| counter.fetch_add(1, Ordering::Relaxed)));
    assert!(counter.load(Ordering::Relaxed) > 0);

    // The other ring: filled beforehand, which is more than a generator on it could do.
    group.bench_function("ArrayQueue pop", |b| {
        b.iter_batched_ref(
            || {
                let queue = ArrayQueue::new(1_024);
                (0..1_024_u64).for_each(|number| queue.push(number).expect("room"));
                queue
            },
            |queue| assert!(queue.pop().is_some()),
            BatchSize::NumIterations(1_024),
        );
    });

    let generator = cached();
    let mut last = Uid::default();
    group.bench_function("cached next_uid", |b| {
        b.iter(|| {
            let uid = generator.next_uid().expect("waits");
            assert!(last < uid);
            last = uid;
        });
    });

    // A clock that stands still and a tick that is never used up: the cost without waiting.
    let generator = ClockedUidGenerator::builder()
        .layout(wide(50))
        .worker_id(1)
        .namespace(fresh())
        .clock(ManualClock::new(Timestamp::from_millis(0)))
        .build()
        .expect("builds");
    let mut last = Uid::default();
    group.bench_function("default next_uid", |b| {
        b.iter(|| {
            let uid = generator.next_uid().expect("the tick is wide");
            assert!(last < uid);
            last = uid;
        });
    });
    group.finish();
}

fn filling(c: &mut Criterion) {
    let mut group = c.benchmark_group("fill");
    for size in [64_usize, 4_096] {
        group.throughput(Throughput::Elements(size as u64));
        let mut numbers = vec![0_u64; size];
        let mut next = 0;
        group.bench_function(format!("store loop {size}"), |b| {
            b.iter(|| {
                for number in black_box(&mut numbers) {
                    *number = next;
                    next += 1;
                }
            });
        });
        let generator = cached();
        let mut uids = vec![Uid::default(); size];
        group.bench_function(format!("cached {size}"), |b| {
            b.iter(|| generator.fill(black_box(&mut uids)).expect("waits"));
        });
        assert!(uids.is_sorted_by(|a, b| a < b));
    }
    group.finish();
}

fn fields(c: &mut Criterion) {
    let mut group = c.benchmark_group("fields");
    let layout = Layout::UID_GENERATOR;
    let uid = layout
        .compose(Fields { tick: 28_000_000, worker_id: 77, sequence: 8_000 })
        .expect("in range");
    group.bench_function("compose", |b| {
        b.iter(|| {
            layout.compose(Fields {
                tick: black_box(28_000_000),
                worker_id: black_box(77),
                sequence: black_box(8_000),
            })
        });
    });
    group.bench_function("decode", |b| {
        b.iter(|| {
            let fields = layout.decode(black_box(uid)).expect("of this layout");
            assert_eq!(fields.worker_id, 77);
        });
    });
    group.finish();
}

fn texts(c: &mut Criterion) {
    let mut group = c.benchmark_group("text");
    let uid: Uid = "962174035532193792".parse().expect("a uid");
    group.bench_function("to decimal", |b| {
        b.iter(|| assert_eq!(black_box(uid).to_string().len(), 18));
    });
    group.bench_function("to hex", |b| b.iter(|| assert_eq!(black_box(uid).hex().len(), 18)));
    group.bench_function("to base62", |b| b.iter(|| assert_eq!(black_box(uid).base62().len(), 11)));
    group.bench_function("to base32", |b| b.iter(|| assert_eq!(black_box(uid).base32().len(), 13)));

    let (hex, base62, base32) = (uid.hex(), uid.base62(), uid.base32());
    group.bench_function("from decimal", |b| {
        b.iter(|| assert_eq!(black_box("962174035532193792").parse(), Ok(uid)));
    });
    group.bench_function("from hex", |b| {
        b.iter(|| assert_eq!(Uid::from_hex(black_box(&hex)), Ok(uid)));
    });
    group.bench_function("from base62", |b| {
        b.iter(|| assert_eq!(Uid::from_base62(black_box(&base62)), Ok(uid)));
    });
    group.bench_function("from base32", |b| {
        b.iter(|| assert_eq!(Uid::from_base32(black_box(&base32)), Ok(uid)));
    });
    group.finish();
}

criterion_group!(benches, taking, filling, fields, texts);
criterion_main!(benches);
