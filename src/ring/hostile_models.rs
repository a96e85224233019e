//! Models of a peer that writes into a shared ring what no correct taker writes. The owner neither panics nor hangs, its
//! takes give numbers of its own runs, and the ring continues or is closed. Run with `scripts/loom`.

use loom::thread;

use super::*;
use crate::sync::AtomicU64;

type Memory = WipeOnForkMemory<RingWords>;

/// A word of the memory.
type Word = (&'static str, fn(&Memory) -> &AtomicU64);

const NEXT: Word = ("next", |memory| &memory.hot().next);
const LIMIT: Word = ("limit", |memory| &memory.hot().limit);
const CURSOR: Word = ("cursor", |memory| &memory.hot().cursor);
const FRESHNESS: Word = ("freshness", |memory| &memory.hot().freshness);

/// The owner only writes these, or reads them for statistics. There are two slots.
const OTHERS: &[Word] = &[
    ("tail", |memory| &memory.words().tail),
    ("closed", |memory| &memory.words().closed),
    ("paused", |memory| &memory.words().paused),
    ("forecast", |memory| &memory.words().forecast),
    ("refreshed", |memory| &memory.words().refreshed),
    ("skipped", |memory| &memory.words().counters.skipped),
    ("dropped", |memory| &memory.words().counters.dropped),
    ("discarded", |memory| &memory.words().counters.discarded),
    ("last_dry", |memory| &memory.words().counters.last_dry),
    ("published_at_end", |memory| &memory.words().counters.published_at_end),
    ("flag", |memory| &memory.slots()[0].flag),
    ("first", |memory| &memory.slots()[0].first),
    ("end", |memory| &memory.slots()[0].end),
    ("before", |memory| &memory.slots()[0].before),
    ("sequence of published", |memory| memory.words().published.words()[0]),
    ("waiting of published", |memory| memory.words().published.words()[1]),
    ("sequence of demand", |memory| memory.words().demand.words()[0]),
    ("waiting of demand", |memory| memory.words().demand.words()[1]),
];

/// What the peer does to a word.
#[derive(Clone, Copy, Debug)]
enum Write {
    Store(u64),
    /// Stores what it has read, which may have changed since.
    StoreBack,
    Add(u64),
}

/// The owner puts 10, 11, 100, 101 and so on.
const WRITES: &[Write] = &[
    Write::Store(0),
    Write::Store(1),
    Write::Store(3),
    Write::Store(u64::MAX),
    Write::Store(MAX_END),
    // Numbers.
    Write::Store(!11),
    Write::Store(!12),
    Write::Store(!101),
    Write::Store(!5_000),
    // The limit of an open run that ends there.
    Write::Store(2 * 5_000 - 1),
    Write::StoreBack,
    Write::Add(1),
    Write::Add(u64::MAX),
];

/// More than [`MOST_TAKERS`] above the others.
const FAR: u64 = 1 << 40;

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 3_000;
    builder.check(model);
}

/// Runs the model with each write to each of the words.
fn for_each(preemptions: usize, words: &[Word], writes: &[Write], model: fn(&[(Word, Write)])) {
    for &word in words {
        for &write in writes {
            println!("{} {write:?}", word.0);
            check(preemptions, move || model(&[(word, write)]));
        }
    }
}

fn spawn_peer(memory: &Memory, writes: &[(Word, Write)]) -> thread::JoinHandle<()> {
    let (memory, writes) = (memory.clone(), writes.to_vec());
    thread::spawn(move || {
        for ((_, word), write) in writes {
            let word = word(&memory);
            match write {
                Write::Store(value) => word.store(value, Ordering::Relaxed),
                Write::StoreBack => word.store(word.load(Ordering::Relaxed), Ordering::Relaxed),
                Write::Add(value) => drop(word.fetch_add(value, Ordering::Relaxed)),
            }
        }
    })
}

/// The owner's side.
struct Owner {
    producer: Producer,
    ring: Arc<RingBuffer>,
    /// The first numbers of its runs of two.
    put: Vec<u64>,
    taken: Vec<u64>,
}

impl Owner {
    fn new() -> Self {
        let options = RingOptions::new(2).run_bits(1).spaced();
        let memory = Memory::shared(options.runs() as usize).expect("memory");
        let options = options.demand(Arc::new(Event::demand(&memory))).shared(memory);
        let (producer, ring) = RingBuffer::new(options).expect("possible");
        Self { producer, ring, put: Vec::new(), taken: Vec::new() }
    }

    /// Puts a run if there is room.
    fn put(&mut self, first: u64) -> bool {
        let mut run = Some(first..first + 2);
        let is_put = self.producer.publish(|| run.take()).expect("in order") == 1;
        self.put.extend(is_put.then_some(first));
        is_put
    }

    /// As the generator does it.
    fn take(&mut self) -> Result<u64, TakeError> {
        let taken = self.ring.own().hot().draw().or_else(|drawn| self.ring.take_slowly(drawn));
        let taken = taken.or_else(|_| self.ring.try_take());
        self.taken.extend(taken);
        taken
    }

    fn take_block(&mut self) {
        self.taken.extend(self.ring.take_block_without_wake().into_iter().flatten());
    }

    /// After the peer's last write, a ring that is not closed gives the numbers of its next run.
    fn continue_or_stop(&mut self) {
        self.producer.discard();
        let is_put = self.put(FAR);
        assert!(is_put || self.ring.why_closed() == Some(TakeError::Closed));
        match self.take() {
            Ok(_) => assert_eq!(self.ring.why_closed(), None),
            Err(error) => assert_eq!(error, TakeError::Closed),
        }
        assert_eq!(self.ring.is_ended(), self.ring.why_closed().is_some());
    }

    /// Closes and ends the ring, and checks all that was taken.
    fn end(&mut self) {
        self.ring.close();
        let below = self.ring.end();
        assert!(self.taken.iter().all(|number| Some(*number) < below));
        let taken = self.taken.len();
        assert_eq!(self.take(), Err(TakeError::Closed));
        self.take_block();
        assert_eq!(self.taken.len(), taken);
        let is_put = |number: &u64| self.put.contains(&(number & !1));
        assert!(self.taken.iter().all(is_put), "{:?}", self.taken);
        assert!(self.taken.is_sorted_by(|a, b| a < b), "{:?}", self.taken);
    }
}

/// One thread of the owner does all that it can do with a ring.
fn beside_all_that_the_owner_does(writes: &[(Word, Write)]) {
    let mut owner = Owner::new();
    let peer = spawn_peer(owner.ring.memory(), writes);
    owner.put(10);
    let _ = owner.take();
    owner.ring.refresh(10);
    owner.put(100);
    owner.producer.discard_below(100);
    owner.take_block();
    let _ = owner.take();
    owner.put(200);
    let _ = (owner.ring.stats(), owner.ring.peek());
    owner.ring.call_next_taker();
    peer.join().expect("no panic");
    owner.continue_or_stop();
    owner.end();
}

/// The owner ends a ring that is dry, and for which it has no run.
fn beside_the_end(writes: &[(Word, Write)]) {
    let mut owner = Owner::new();
    owner.put(10);
    owner.take_block();
    let peer = spawn_peer(owner.ring.memory(), writes);
    let _ = owner.take();
    let _ = owner.producer.publish(|| None);
    owner.end();
    peer.join().expect("no panic");
    assert_eq!(owner.take(), Err(TakeError::Closed));
    assert!(owner.ring.is_ended() && !owner.ring.is_fresh(10));
}

#[test]
fn models_hostile_writes_at_the_end() {
    for_each(2, &[NEXT, LIMIT, CURSOR, FRESHNESS], WRITES, beside_the_end);
    for_each(2, OTHERS, WRITES, beside_the_end);
}

#[test]
fn models_hostile_writes_to_hot_words() {
    for_each(2, &[NEXT, LIMIT, CURSOR, FRESHNESS], WRITES, beside_all_that_the_owner_does);
}

#[test]
fn models_hostile_writes_to_other_words() {
    for_each(2, OTHERS, WRITES, beside_all_that_the_owner_does);
}

fn beside_takes(writes: &[(Word, Write)]) {
    let mut owner = Owner::new();
    owner.put(10);
    let peer = spawn_peer(owner.ring.memory(), writes);
    let _ = owner.take();
    owner.put(100);
    owner.take_block();
    peer.join().expect("no panic");
    let _ = owner.take();
    owner.end();
}

/// Two writes, which may lie apart.
#[test]
fn models_two_hostile_writes() {
    let pairs = [
        // It takes a number again, where the limit allows that.
        [(LIMIT, Write::Store(2 * 5_000 - 1)), (NEXT, Write::Store(!10))],
        [(NEXT, Write::Store(!5_000)), (NEXT, Write::Store(!10))],
        [(CURSOR, Write::Store(3)), (NEXT, Write::Store(!101))],
        [(CURSOR, Write::Add(1)), (CURSOR, Write::Add(u64::MAX))],
        [(CURSOR, Write::Add(1)), (CURSOR, Write::Add(1))],
    ];
    for writes in pairs {
        println!("{writes:?}");
        check(3, move || beside_takes(&writes));
    }
}

/// A thread of the owner takes while another one discards and puts.
fn beside_two_threads(writes: &[(Word, Write)]) {
    let mut owner = Owner::new();
    owner.put(10);
    let peer = spawn_peer(owner.ring.memory(), writes);
    let ring = Arc::clone(&owner.ring);
    let taker = thread::spawn(move || ring.try_take());
    owner.producer.discard_below(11);
    owner.put(100);
    owner.taken.extend(taker.join().expect("no panic"));
    peer.join().expect("no panic");
    let _ = owner.take();
    owner.end();
}

#[test]
fn models_hostile_writes_beside_two_threads() {
    let writes = &[Write::Store(0), Write::Store(3), Write::Store(!10), Write::StoreBack];
    for_each(1, &[NEXT, CURSOR], writes, beside_two_threads);
}

/// The producer and a taker of the owner sleep. A close wakes them, or the longest time of a sleep passes.
fn beside_sleepers(writes: &[(Word, Write)]) {
    let Owner { mut producer, ring, .. } = Owner::new();
    let peer = spawn_peer(ring.memory(), writes);
    let (taker, closer) = (Arc::clone(&ring), producer.ring().clone());
    let sleepers = [
        thread::spawn(move || producer.wait_for_demand(None)),
        thread::spawn(move || {
            taker.park(None);
        }),
    ];
    closer.close();
    peer.join().expect("no panic");
    // The model has no time. With the second one, a sequence is new to whoever read it before the peer's write.
    for _ in 0..2 {
        for event in [&ring.words().published, &ring.words().demand] {
            event.words()[1].store(1, Ordering::Relaxed);
            event.notify(true);
        }
    }
    sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no panic"));
}

#[test]
fn models_hostile_writes_beside_sleepers() {
    let writes = &[Write::Store(0), Write::Store(1), Write::Store(u64::MAX), Write::Add(1)];
    for_each(1, &[NEXT, CURSOR], writes, beside_sleepers);
    for_each(1, &OTHERS[OTHERS.len() - 4..], writes, beside_sleepers);
}
