//! Ten million ids of one tag out of a table whose step is 10,000 when it begins: throughput, how often
//! a segment was loaded, how many takes had to wait for it. The MySQL server is a private one.

use std::thread;
use std::time::{Duration, Instant};

use uidring::SegmentGenerator;
use uidring::segment::SegmentStats;
use uidring_mysql::MySqlStore;
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::mariadb::MariaDb;

/// A way to take all the ids.
struct Contestant {
    name: &'static str,
    threads: u64,
    step_factor: u64,
}

const CONTESTANTS: [Contestant; 4] = [
    Contestant { name: "1 thread", threads: 1, step_factor: 2 },
    Contestant { name: "8 threads", threads: 8, step_factor: 2 },
    Contestant { name: "1 thread, the step stays 10,000", threads: 1, step_factor: 1 },
    Contestant { name: "8 threads, the step stays 10,000", threads: 8, step_factor: 1 },
];

fn main() {
    // What `cargo bench` adds is of no interest here; `--quick` is.
    let quick = std::env::args().any(|word| word == "--quick");
    let (rounds, ids) = if quick { (1, 400_000) } else { (7, 10_000_000) };
    // A load is on the disk before its range is used.
    let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]);
    let database = server.database();
    let table = || MySqlStore::from_url(&database.url()).expect("a URL").segments();
    let mut results: Vec<Vec<(Duration, SegmentStats)>> = vec![Vec::new(); CONTESTANTS.len()];
    for round in 0..rounds {
        for (index, contestant) in CONTESTANTS.iter().enumerate() {
            let tag = format!("{index}-{round}");
            let new = NewSegmentTag::new(&*tag, 10_000).expect("allowed");
            table().create_table_if_missing(true).create_tag(&new).expect("created");
            let builder = SegmentGenerator::builder(table()).step_factor(contestant.step_factor);
            let generator = builder.build().expect("built");
            results[index].push(take(&generator, &tag, contestant.threads, ids));
        }
    }
    println!("| {ids} ids by | M ids/s | loads | takes that waited | ids left over |");
    println!("|---|---|---|---|---|");
    for (contestant, results) in CONTESTANTS.iter().zip(&mut results) {
        results.sort_unstable_by_key(|(time, _)| *time);
        let (time, stats) = &results[results.len() / 2];
        println!(
            "| {} | {:.1} | {} | {:.5} % ({}) | {} |",
            contestant.name,
            ids as f64 / time.as_secs_f64() / 1e6,
            stats.loads,
            stats.waits as f64 * 100.0 / ids as f64,
            stats.waits,
            stats.reserved - ids,
        );
    }
}

/// The time that all threads together took, and what the generator says of it; checks that each id
/// came once.
fn take(
    generator: &SegmentGenerator,
    tag: &str,
    threads: u64,
    ids: u64,
) -> (Duration, SegmentStats) {
    let share = ids / threads;
    let start = Instant::now();
    let taken: Vec<Vec<u64>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let tag = generator.tag(tag).expect("known");
                    let mut ids = Vec::with_capacity(share as usize);
                    ids.extend((0..share).map(|_| tag.next_id().expect("taken")));
                    ids
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
    });
    let time = start.elapsed();
    let mut all = taken.concat();
    all.sort_unstable();
    assert!(all.iter().copied().eq(1..=ids), "each id once, without a gap");
    (time, generator.stats(tag).expect("known"))
}
