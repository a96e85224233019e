//! Rings with runs of different lengths.

use std::hint::black_box;
use std::time::Instant;

use uidring::padding::Padding;
use uidring::{Padder, PadderOptions, RingOptions};

use super::Comparison;
use super::timing::{BATCH, batches, by_threads, per_id};

/// 65,536 numbers, as in the generator's default.
const CAPACITY_BITS: u32 = 16;

pub fn comparisons() -> impl Iterator<Item = Comparison> {
    (7..=10).flat_map(|bits| {
        let against = format!("runs of {} / of 64", 1 << bits);
        let by_threads = [1, 2, 16].map(|threads| {
            Comparison::new(
                format!("take, {against}, threads: {threads}"),
                move |ids| takes(&ring(bits), threads, ids),
                move |ids| takes(&ring(6), threads, ids),
            )
        });
        by_threads.into_iter().chain([Comparison::new(
            format!("fill(4096) sustained, {against}"),
            move |ids| fills(&ring(bits), ids),
            move |ids| fills(&ring(6), ids),
        )])
    })
}

fn ring(run_bits: u32) -> Padding {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let mut next = 0;
    let source = move || {
        next += 1 << run_bits;
        Some(next)
    };
    padder.serve(RingOptions::new(CAPACITY_BITS, run_bits), source, None).expect("possible")
}

fn takes(padding: &Padding, threads: u64, ids: u64) -> f64 {
    let ring = padding.ring();
    let cost = by_threads(threads, ids, |count| {
        for _ in 0..count {
            while black_box(ring.try_take()).is_err() {
                padding.help();
            }
        }
    });
    assert!(ring.stats().taken > ids / threads);
    cost
}

fn fills(padding: &Padding, ids: u64) -> f64 {
    let mut numbers = [0; BATCH];
    let batches = batches(ids);
    let start = Instant::now();
    for _ in 0..batches {
        let mut filled = 0;
        while filled < BATCH {
            match padding.ring().try_fill(&mut numbers[filled..]) {
                Ok(count) => filled += count,
                Err(_) => {
                    padding.help();
                }
            }
        }
        black_box(&mut numbers);
    }
    let time = start.elapsed();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    per_id(time, batches * BATCH as u64)
}
