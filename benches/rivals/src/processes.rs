//! Takers that are processes: on a ring that they share, beside threads on a ring of their process and what processes
//! share today.

mod servers;
mod takers;

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use uidring::generator::CachedBuilder;
use uidring::{CachedUidGenerator, SharedRing, Uid, UidGenerator};

use self::servers::{Paths, Servers, ask, connect, count_up, number_in};
use self::takers::Kind::{self, Processes, Threads};
use self::takers::{Child, MAX_TAKERS, Page, fork, pin, processor_time, sleep, work};
use crate::args::Args;
use crate::contestants::Contestant;
use crate::measure::{Measured, measure, median, nanos, quantile, ratios};
use crate::namespace::fresh;
use crate::promise::Id;
use crate::report;
use crate::work::{FILL, Work};

const PRIVATE: &str = "fetch_add in private memory; threads";
const SHARED: &str = "fetch_add on a shared page; processes";
const NEXT: &str = "next_uid; threads";
const FILL_4096: &str = "fill(4096); threads";

/// Ids that a taker takes before it looks for more work; a few if each takes microseconds.
const PORTION: u64 = 1024;
const SLOW_PORTION: u64 = 16;
const BULK: u64 = FILL as u64;

const IN_TIME: &str = "the layout's time is not over";

/// Measures what `--only` names. Returns false if that is nothing.
pub fn run(args: &Args, out: &mut impl Write, raw: &mut Option<impl Write>) -> io::Result<bool> {
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let page = Page::map();
    report::header().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    // First, while this process has no other generator.
    if wanted("idle") {
        eprintln!("idle: 30 seconds");
        idle(out, page)?;
    }
    if wanted("dry") {
        eprintln!("dry");
        dry(out, args)?;
    }
    if args.only.as_ref().is_some_and(|only| ["idle", "dry"].contains(&only.as_str())) {
        return Ok(true);
    }
    let servers = Servers::start()?;
    let sources = Box::leak(Box::new(Sources::new(page, servers.paths())?));
    let mut any = false;
    for takers in [1, 2, MAX_TAKERS] {
        let shape = format!("processes-{takers}");
        let wanted = |(_, row): &Row| wanted(&format!("{shape}/{}", row.name));
        let mut rows = rows(sources, takers);
        if !rows.iter().any(wanted) {
            continue;
        }
        any = true;
        let references = [PRIVATE, SHARED, NEXT, FILL_4096];
        rows.retain(|row| references.contains(&row.1.name) || wanted(row));
        eprintln!("{shape}: {} contestants", rows.len());
        let (references, contestants): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let measured = measure(contestants, args.rounds, args.slice);
        table(out, &shape, &references, &measured)?;
        if let Some(raw) = raw {
            report::raw(raw, &shape, &measured)?;
        }
    }
    Ok(any)
}

fn table(
    out: &mut impl Write,
    shape: &str,
    references: &[[&str; 2]],
    all: &[Measured],
) -> io::Result<()> {
    writeln!(out, "\n## {shape}\n")?;
    writeln!(
        out,
        "| contestant | ns/id | ÷ fetch_add, same kind | ÷ in-process | its middle half |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|")?;
    for (one, [addition, in_process]) in all.iter().zip(references) {
        let to_take = || ratios(all, one, in_process);
        writeln!(
            out,
            "| {} | {:.3} | {:.2} | {:.2} | {:.2} to {:.2} |",
            one.name,
            median(one.runs.iter().map(nanos)),
            median(ratios(all, one, addition)),
            median(to_take()),
            quantile(to_take(), 0.25),
            quantile(to_take(), 0.75),
        )?;
    }
    out.flush()
}

/// What takers take from. Leaked, so that the work of all shapes can borrow from it.
struct Sources {
    page: &'static Page,
    private: CachePadded<AtomicU64>,
    generator: CachedUidGenerator,
    /// A second one, for the spread of the first against itself.
    other: CachedUidGenerator,
    owner: CachedUidGenerator,
    ring: SharedRing,
    /// A ring of eight times the size, and its owner.
    large: (CachedUidGenerator, SharedRing),
    redis: UnixStream,
    file: File,
    paths: Paths,
}

fn builder() -> CachedBuilder {
    // The padder is on the last core; takers are pinned from the first on.
    CachedUidGenerator::builder().worker_id(0).namespace(fresh())
}

fn shared(boost_power: u32) -> (CachedUidGenerator, SharedRing) {
    let owner = builder().boost_power(boost_power).shared().build().expect("builds");
    let ring = owner.shared_ring().expect("shared");
    (owner, ring)
}

impl Sources {
    fn new(page: &'static Page, paths: Paths) -> io::Result<Self> {
        let [generator, other] = [(); 2].map(|()| builder().build().expect("builds"));
        let ((owner, ring), large) = (shared(3), shared(6));
        let (redis, file) = (UnixStream::connect(&paths.redis)?, File::open(&paths.file)?);
        let private = CachePadded::default();
        Ok(Self { page, private, generator, other, owner, ring, large, redis, file, paths })
    }

    fn takes(
        &self,
        takers: (Kind, usize),
        ring: &'static (impl UidGenerator + Sync),
        owner: &'static CachedUidGenerator,
    ) -> Work {
        let open = || one_by_one(PORTION, || next(ring));
        work(self.page, takers, PORTION, || Some(owner.stats().ring.taken), open)
    }

    fn fills(
        &self,
        takers: (Kind, usize),
        ring: &'static (impl UidGenerator + Sync),
        owner: &'static CachedUidGenerator,
    ) -> Work {
        let open = || in_bulk(|out: &mut [Uid]| ring.fill(out).expect(IN_TIME));
        work(self.page, takers, BULK, || Some(owner.stats().ring.taken), open)
    }
}

/// A contestant, with what its ratios are to: an addition by takers of the same kind, and the same call on a generator of
/// one process.
type Row = ([&'static str; 2], Contestant);

fn rows(sources: &'static Sources, takers: usize) -> Vec<Row> {
    let Sources { page, private, generator, other, owner, ring, large, redis, file, paths } =
        sources;
    let (threads, processes) = ((Threads, takers), (Processes, takers));
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |name, references, work: Work| {
        rows.push((references, Contestant { name, note: "", make: Box::new(|| work) }));
    };

    let count = || Some(private.load(Relaxed));
    let open = || one_by_one(PORTION, || private.fetch_add(1, Relaxed));
    add(PRIVATE, [PRIVATE, NEXT], work(page, threads, PORTION, count, open));
    let count = || Some(page.counter.load(Relaxed));
    let open = || one_by_one(PORTION, || page.counter.fetch_add(1, Relaxed));
    add(SHARED, [SHARED, NEXT], work(page, processes, PORTION, count, open));

    let references = [PRIVATE, NEXT];
    add(NEXT, references, sources.takes(threads, generator, generator));
    add("next_uid; threads; again", references, sources.takes(threads, other, other));
    add("SharedRing::next_uid; threads", references, sources.takes(threads, ring, owner));
    let work_of_children = sources.takes(processes, ring, owner);
    add("SharedRing::next_uid; processes", [SHARED, NEXT], work_of_children);
    let references = [PRIVATE, FILL_4096];
    add(FILL_4096, references, sources.fills(threads, generator, generator));
    add("fill(4096); threads; again", references, sources.fills(threads, other, other));
    add("SharedRing::fill(4096); threads", references, sources.fills(threads, ring, owner));
    let work_of_children = sources.fills(processes, ring, owner);
    add("SharedRing::fill(4096); processes", [SHARED, FILL_4096], work_of_children);
    let work_of_children = sources.fills(processes, &large.1, &large.0);
    let name = "SharedRing::fill(4096), boost power 6; processes";
    add(name, [SHARED, FILL_4096], work_of_children);

    let open = || {
        let mut client = connect(&paths.uidring);
        in_bulk(move |out: &mut [u64]| client.fill("", out).expect("answered"))
    };
    let batches = work(page, processes, BULK, || None, open);
    add("uidring serve batch of 4096; processes", [SHARED, FILL_4096], batches);
    let open = || {
        // It ends with the child.
        let mut ids = Box::leak(Box::new(connect(&paths.uidring))).prefetch("", FILL);
        one_by_one(PORTION, move || ids.next_id().expect("answered"))
    };
    let prefetched = work(page, processes, PORTION, || None, open);
    add("uidring serve batch of 4096 one by one; processes", [SHARED, NEXT], prefetched);
    let open = || {
        let file = File::options().read(true).write(true).open(&paths.file).expect("opens");
        one_by_one(SLOW_PORTION, move || count_up(&file))
    };
    let locks = work(page, processes, SLOW_PORTION, || Some(number_in(file)), open);
    add("flock on a file; processes", [SHARED, NEXT], locks);
    let open = || {
        let redis = UnixStream::connect(&paths.redis).expect("it listens");
        one_by_one(SLOW_PORTION, move || ask(&redis, b"INCR uid\r\n"))
    };
    let count = || Some(ask(redis, b"INCRBY uid 0\r\n"));
    let increments = work(page, processes, SLOW_PORTION, count, open);
    add("Redis INCR; processes", [SHARED, NEXT], increments);
    rows
}

#[inline]
fn next(generator: &impl UidGenerator) -> u64 {
    generator.next_uid().expect(IN_TIME).get()
}

/// Takes portions with one call for each id.
fn one_by_one(portion: u64, mut next: impl FnMut() -> u64) -> impl FnMut(Option<&mut Vec<u64>>) {
    move |shown| match shown {
        Some(ids) => ids.extend((0..portion).map(|_| next())),
        None => {
            for _ in 0..portion {
                black_box(next());
            }
        }
    }
}

/// Takes portions with one call for each.
fn in_bulk<I: Id + Default>(mut fill: impl FnMut(&mut [I])) -> impl FnMut(Option<&mut Vec<u64>>) {
    let mut out = vec![I::default(); FILL];
    move |shown| {
        fill(&mut out);
        black_box(&mut out);
        if let Some(ids) = shown {
            ids.extend(out.iter().map(|id| id.number() as u64));
        }
    }
}

/// How often one process finds the ring dry, by the ring's size and the process's pace.
fn dry(out: &mut impl Write, args: &Args) -> io::Result<()> {
    // Millions of uids a second, with `next_uid` up to the first infinite one, then with `fill`.
    const PACES: [f64; 8] = [1.0, 10.0, 50.0, f64::INFINITY, 200.0, 500.0, 1000.0, f64::INFINITY];
    const SINGLE: usize = 4;
    let rings: Vec<_> = (3..=10).map(|power| (power, shared(power))).collect();
    let mut sums = vec![[(0, 0); PACES.len()]; rings.len()];
    for _ in 0..args.rounds {
        for ((_, (owner, ring)), sums) in rings.iter().zip(&mut sums) {
            for (index, (pace, (taken, dried))) in PACES.iter().zip(sums).enumerate() {
                let before = owner.stats().ring;
                let child = fork(|| {
                    pin(0);
                    if index < SINGLE {
                        keep_pace(one_by_one(PORTION, || next(ring)), PORTION, *pace, args.slice);
                    } else {
                        let fill = in_bulk(|out: &mut [Uid]| ring.fill(out).expect(IN_TIME));
                        keep_pace(fill, BULK, *pace, args.slice);
                    }
                });
                assert_eq!(child.wait(), 0, "it failed");
                let after = owner.stats().ring;
                *taken += after.taken - before.taken;
                *dried += after.dried - before.dried;
            }
        }
    }
    let seconds = args.slice.as_secs_f64() * args.rounds as f64;
    writeln!(out, "\n## dry: times a second that one process finds the ring dry (at M uids/s)\n")?;
    write!(out, "| boost power | uids in the ring |")?;
    for (index, pace) in PACES.iter().enumerate() {
        let call = if index < SINGLE { "next_uid" } else { "fill(4096)" };
        match pace.is_finite() {
            true => write!(out, " {call}, {pace} M/s |")?,
            false => write!(out, " {call}, full speed |")?,
        }
    }
    writeln!(out, "\n|---:|---:{}|", "|---:".repeat(PACES.len()))?;
    for ((power, (owner, _)), sums) in rings.iter().zip(&sums) {
        write!(out, "| {power} | {} |", owner.stats().ring.capacity)?;
        for (taken, dried) in sums {
            let rate = *taken as f64 / seconds / 1e6;
            write!(out, " {:.0} ({rate:.0}) |", *dried as f64 / seconds)?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// Takes so many million ids a second, or as many as it can.
fn keep_pace(mut take: impl FnMut(Option<&mut Vec<u64>>), portion: u64, pace: f64, time: Duration) {
    let (start, mut taken) = (Instant::now(), 0.0);
    while start.elapsed() < time {
        take(None);
        taken += portion as f64;
        while start.elapsed().as_secs_f64() < taken / (pace * 1e6) {}
    }
}

/// The owner's processor time with idle takers, and without.
fn idle(out: &mut impl Write, page: &Page) -> io::Result<()> {
    const TIME: Duration = Duration::from_secs(5);
    let (_owner, ring) = shared(3);
    writeln!(out, "\n## idle: the owner's processor time in {TIME:?}\n")?;
    writeln!(out, "| idle takers | ms, by round |\n|---:|---|")?;
    let mut times = [(0, Vec::new()), (100, Vec::new())];
    for _ in 0..3 {
        for (takers, times) in &mut times {
            page.forget_arrivals();
            let taker = || {
                next(&ring);
                page.meet(0);
                loop {
                    sleep();
                }
            };
            let children: Vec<_> = (0..*takers).map(|_| fork(taker)).collect();
            page.wait_for(*takers);
            let before = processor_time();
            thread::sleep(TIME);
            let spent = processor_time() - before;
            times.push(format!("{:.3}", spent.as_secs_f64() * 1e3));
            children.into_iter().for_each(Child::kill);
        }
    }
    for (takers, times) in times {
        writeln!(out, "| {takers} | {} |", times.join(", "))?;
    }
    out.flush()
}
