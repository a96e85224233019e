//! The operations whose instructions `scripts/instructions` counts.
//!
//! `cargo bench --bench instructions -- [COUNT] [NAME]` runs all of them, or one, and checks their results.

use std::env;
use std::fmt::{self, Write};
use std::hint::black_box;
use std::time::Duration;

use uidring::clock::ManualClock;
use uidring::generator::SequenceStart;
use uidring::ring::{RingBuffer, RingOptions};
use uidring::segment::{MemorySegments, SegmentTag};
use uidring::{Bits, CachedUidGenerator, Decoded, Layout, SegmentGenerator, Tick, Timestamp, Uid};
use uidring_any::{AnyGenerator, TagGenerator};

/// The counted loops. The script finds each by its function's name.
mod counted {
    use uidring::segment::SegmentHandle;
    use uidring::{LocalGenerator, PerThreadGenerator, UidText};

    use super::*;

    type PerThread<'a> = PerThreadGenerator<&'a CachedUidGenerator>;
    type Local<'a> = LocalGenerator<&'a CachedUidGenerator>;

    /// Defines functions that run their body once for each element of a slice.
    macro_rules! loops {
        ($(fn $name:ident($with:ident: $With:ty, $result:ident: &mut $Result:ty) $body:block)*) => {$(
            #[inline(never)]
            pub fn $name($with: $With, results: &mut [$Result]) {
                for $result in results $body
            }
        )*};
    }

    loops! {
        fn next_uid(generator: &CachedUidGenerator, uid: &mut Uid) {
            *uid = generator.next_uid().expect("waits");
        }

        fn per_thread_next_uid(handle: &PerThread<'_>, uid: &mut Uid) {
            *uid = handle.next_uid().expect("waits");
        }

        fn local_next_uid(local: &mut Local<'_>, uid: &mut Uid) {
            *uid = local.next_uid().expect("waits");
        }

        fn segment_next_id(segment: &SegmentHandle, id: &mut u64) {
            *id = segment.next_id().expect("waits");
        }

        fn any_next_uid(generator: &AnyGenerator, uid: &mut Uid) {
            *uid = generator.next_uid().expect("waits");
        }

        fn any_segment_next_uid(generator: &AnyGenerator, uid: &mut Uid) {
            *uid = generator.next_uid().expect("waits");
        }

        fn ring_try_take(ring: &RingBuffer, number: &mut u64) {
            *number = ring.try_take().expect("published");
        }

        fn run_of_two(generator: &CachedUidGenerator, uids: &mut [Uid; 2]) {
            for uid in uids {
                *uid = generator.next_uid().expect("waits");
            }
        }

        fn per_thread_block_of_two(handle: &PerThread<'_>, uids: &mut [Uid; 2]) {
            for uid in uids {
                *uid = handle.next_uid().expect("waits");
            }
        }

        fn local_block_of_two(local: &mut Local<'_>, uids: &mut [Uid; 2]) {
            for uid in uids {
                *uid = local.next_uid().expect("waits");
            }
        }

        fn fill_4096(generator: &CachedUidGenerator, uids: &mut [Uid; 4_096]) {
            generator.fill(uids).expect("waits");
        }

        fn decode(layout: &Layout, fields: &mut Decoded) {
            *fields = black_box(layout).decode(black_box(UID)).expect("of this layout");
        }

        fn decimal_format(uid: Uid, text: &mut Decimal) {
            write!(text, "{}", black_box(uid)).expect("as long as its array");
        }

        fn hex_format(uid: Uid, text: &mut UidText<18>) {
            *text = black_box(uid).hex();
        }

        fn base62_format(uid: Uid, text: &mut UidText<11>) {
            *text = black_box(uid).base62();
        }

        fn base32_format(uid: Uid, text: &mut UidText<13>) {
            *text = black_box(uid).base32();
        }

        fn decimal_parse(text: &str, uid: &mut Uid) {
            *uid = black_box(text).parse().expect("a uid");
        }

        fn hex_parse(text: &str, uid: &mut Uid) {
            *uid = Uid::from_hex(black_box(text)).expect("a uid");
        }

        fn base62_parse(text: &str, uid: &mut Uid) {
            *uid = Uid::from_base62(black_box(text)).expect("a uid");
        }

        fn base32_parse(text: &str, uid: &mut Uid) {
            *uid = Uid::from_base32(black_box(text)).expect("a uid");
        }
    }
}

/// The uid of the README's example, in the default layout.
const UID: Uid = Uid::new(965_997_071_821_758_506).unwrap();
const DECIMAL: &str = "965997071821758506";
const HEX: &str = "0x0d67e9380000e02a";
const BASE62: &str = "19MHAA6um0A";
const BASE32: &str = "0TSZ970001R1A";

/// A buffer filled without `memcpy`: the C library picks among several by processor.
#[derive(Clone)]
struct Decimal([u8; DECIMAL.len()]);

impl Write for Decimal {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.as_bytes().try_into().map_err(|_| fmt::Error)?;
        Ok(())
    }
}

fn main() {
    let mut runner = Runner { count: 24, only: None };
    // Cargo adds `--bench`.
    for word in env::args().skip(1).filter(|word| !word.starts_with("--")) {
        match word.parse() {
            Ok(count) => runner.count = count,
            Err(_) => runner.only = Some(word),
        }
    }
    macro_rules! run {
        ($name:ident($with:expr), $blank:expr, $is_right:expr) => {
            runner.run(stringify!($name), counted::$name, $with, $blank, $is_right);
        };
    }

    // One run with room for all takes, then runs of two uids.
    let (long, short) = (generator(20), generator(1));
    let [per_thread, blocks] = [&long, &short].map(CachedUidGenerator::per_thread);
    let any = AnyGenerator::Cached(generator(19));
    let segments = orders();
    let segment = segments.tag("orders").expect("there");
    let (mut producer, ring) = RingBuffer::new(RingOptions::new(10).spaced()).expect("possible");
    producer.put(0).expect("room");
    // The first takes open the run, allocate, and wait for a load.
    per_thread.next_uid().and(blocks.next_uid()).expect("waits");
    segment.next_id().expect("waits");
    let any_segment =
        TagGenerator::new(orders(), "orders").map(AnyGenerator::Segment).expect("there");
    any_segment.next_uid().expect("waits");
    ring.try_take().expect("published");
    run!(next_uid(&long), UID, increase);
    run!(per_thread_next_uid(&per_thread), UID, increase);
    run!(local_next_uid(&mut long.local()), UID, increase);
    run!(segment_next_id(&segment), 0, increase);
    run!(any_next_uid(&any), UID, increase);
    run!(any_segment_next_uid(&any_segment), UID, increase);
    run!(ring_try_take(&ring), 0, increase);
    run!(run_of_two(&short), [UID; 2], all_increase);
    run!(per_thread_block_of_two(&blocks), [UID; 2], all_increase);
    run!(local_block_of_two(&mut short.local()), [UID; 2], all_increase);
    run!(fill_4096(&long), [UID; 4_096], all_increase);

    let (layout, zero) = (Layout::UID_GENERATOR, Uid::default());
    let blank = layout.decode(zero).expect("of any layout");
    let fields = |fields: &Decoded| (fields.tick, fields.worker_id, fields.sequence);
    run!(decode(&layout), blank, each(|decoded| fields(decoded) == (28_114_215, 7, 42)));
    run!(decimal_format(UID), Decimal([0; _]), each(|text: &Decimal| text.0 == DECIMAL.as_bytes()));
    run!(hex_format(UID), zero.hex(), each(|text| text == HEX));
    run!(base62_format(UID), zero.base62(), each(|text| text == BASE62));
    run!(base32_format(UID), zero.base32(), each(|text| text == BASE32));
    run!(decimal_parse(DECIMAL), zero, each(|uid| *uid == UID));
    run!(hex_parse(HEX), zero, each(|uid| *uid == UID));
    run!(base62_parse(BASE62), zero, each(|uid| *uid == UID));
    run!(base32_parse(BASE32), zero, each(|uid| *uid == UID));
}

struct Runner {
    count: usize,
    only: Option<String>,
}

impl Runner {
    fn run<W, R: Clone>(
        &self,
        name: &str,
        operation: fn(W, &mut [R]),
        with: W,
        blank: R,
        are_right: impl Fn(&[R]) -> bool,
    ) {
        if self.only.as_ref().is_none_or(|only| only == name) {
            let mut results = vec![blank; self.count];
            operation(black_box(with), black_box(&mut results));
            assert!(are_right(&results), "{name}");
        }
    }
}

fn increase<T: PartialOrd>(ids: &[T]) -> bool {
    ids.is_sorted_by(|a, b| a < b)
}

fn all_increase<const N: usize>(uids: &[[Uid; N]]) -> bool {
    increase(uids.as_flattened())
}

fn each<R>(is_right: impl Fn(&R) -> bool) -> impl Fn(&[R]) -> bool {
    move |results| results.iter().all(&is_right)
}

/// Builds a generator with 512 runs of `2^sequence` uids, so that no take leaves the ring low. No refresh is due, so
/// the padder stays asleep.
fn generator(sequence: u8) -> CachedUidGenerator {
    let bits = Bits { time: 43 - sequence, worker: 20, sequence };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let generator = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(1)
        .namespace(sequence.to_string())
        .sequence_start(SequenceStart::Zero)
        .boost_power(9)
        .padding_factor(1)
        .clock(ManualClock::new(Timestamp::default()))
        .refresh(Duration::from_secs(3_600))
        .build()
        .expect("builds");
    // Opens the first run.
    generator.next_uid().expect("waits");
    generator
}

fn orders() -> SegmentGenerator {
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(1_000_000)).expect("positive");
    SegmentGenerator::builder(table).build().expect("builds")
}
