//! Lost messages: each request and each answer of an operation in turn is lost, with its connection. The request may or
//! may not have been carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{Error, Layout};

use super::segments::{load_tag, max_id_of_tag, open_at, tagged};
use super::setting::{LIMIT, LONG, SHORT, Setting, assign, place, until};
use super::store::{Place, Store};
use crate::chain;
use crate::proxy::{Direction, Proxy, Verdict};

/// More messages than any operation needs.
const MANY: usize = 500;

const WAYS: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// A proxy that loses a message.
struct Lossy {
    proxy: Proxy,
    lost: Arc<AtomicBool>,
}

impl Lossy {
    /// Loses message `number` of this direction.
    fn new(setting: &Setting, way: Direction, number: usize) -> Self {
        let (seen, lost) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let proxy = Proxy::with(setting.site().port().expect("a port"), {
            let lost = Arc::clone(&lost);
            move |chunk| {
                let is_it = chunk.direction == way && seen.fetch_add(1, Ordering::SeqCst) == number;
                if is_it {
                    lost.store(true, Ordering::SeqCst);
                }
                if is_it { Verdict::Cut } else { Verdict::Forward }
            }
        });
        Self { proxy, lost }
    }

    fn address(&self, setting: &Setting) -> String {
        setting.site().address_at(self.proxy.port())
    }

    fn place(&self, setting: &Setting) -> Place {
        place(self.address(setting))
    }
}

/// A store may retry by itself, or say that a retry may succeed.
#[track_caller]
fn done<T>(result: Result<T, Error>, what: &str) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(Error::Store(error)) if error.may_pass() => {
            eprintln!("{what}: {}", chain(&error));
            None
        }
        Err(error) => panic!("{what}: {}", chain(&error)),
    }
}

/// Runs the operation once for each of its messages, which is lost. Prints how many there are.
fn for_each_message(setting: &Setting, mut operation: impl FnMut(&Lossy, &str)) {
    for way in WAYS {
        let count = (0..MANY).find(|&number| {
            let lossy = Lossy::new(setting, way, number);
            operation(&lossy, &format!("without message {number} {way:?}"));
            !lossy.lost.load(Ordering::SeqCst)
        });
        let count = count.expect("an end");
        eprintln!("{count} messages {way:?}");
        assert!(count > 0, "nothing came by the proxy");
    }
}

pub fn a_start_that_loses_a_message_has_a_new_worker_id(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let mut last = None;
    for_each_message(&setting, |lossy, what| {
        let id = assign(store, &lossy.place(&setting), Layout::UID_GENERATOR);
        let Some(id) = done(id, what) else { return };
        assert!(last < Some(id), "{what}: {id} after {last:?}");
        last = Some(id);
    });
}

/// It finds its worker id again, and gives it back.
pub fn a_holder_that_loses_a_message_keeps_and_returns_its_worker_id(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let (mut last, mut id) = (None, None);
    for_each_message(&setting, |lossy, what| {
        // The lease outlasts the wait, so an earlier lease that was not given back would be missed.
        let Some(lease) = done(setting.lease_at(&lossy.place(&setting), LONG, LIMIT), what) else {
            return;
        };
        assert_eq!(*id.get_or_insert(lease.worker_id()), lease.worker_id(), "{what}");
        assert!(lease.after() >= last, "{what}: {:?} is below {last:?}", lease.after());
        // Its first renewal is retried.
        let generator = setting.try_generator(lease);
        let generator = generator.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
        for _ in 0..10 {
            let uid = generator.next_uid().expect("ready");
            assert!(last < Some(uid), "{what}: {uid} after {last:?}");
            last = Some(uid);
        }
        generator.close();
    });
}

/// Uids flow on, and the lease is kept.
pub fn a_renewal_that_loses_a_message_is_made_again(store: &'static dyn Store) {
    const FORWARD: usize = 2;
    let setting = Setting::shared(store).worker_bits(1);
    // The direction in which the next message is lost.
    let armed = Arc::new(AtomicUsize::new(FORWARD));
    let proxy = Proxy::with(setting.site().port().expect("a port"), {
        let armed = Arc::clone(&armed);
        move |chunk| {
            let way = usize::from(chunk.answers());
            let is_it =
                armed.compare_exchange(way, FORWARD, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if is_it { Verdict::Cut } else { Verdict::Forward }
        }
    });
    let at = place(setting.site().address_at(proxy.port()));
    // An attempt that a busy server leaves unanswered uses up five seconds of it.
    let lasts = SHORT * 2;
    let lease = setting.lease_at(&at, lasts, Duration::ZERO).expect("free");
    let generator = setting.generator(lease);
    let mut last = generator.next_uid().expect("ready");
    let mut take = || {
        let uid = generator.next_uid().expect("kept");
        assert!(last < uid, "{uid} after {last}");
        last = uid;
    };
    for way in [0, 1] {
        armed.store(way, Ordering::SeqCst);
        until("a renewal", || {
            take();
            armed.load(Ordering::SeqCst) == FORWARD
        });
    }
    // The lease would be over without the retry of the last renewal.
    let begin = Instant::now();
    while begin.elapsed() < lasts {
        take();
        thread::sleep(Duration::from_millis(2));
    }
    drop(generator);
    let next = setting.lease().expect("given back");
    assert!(next.after() >= Some(last), "{:?} is below {last}", next.after());
}

pub fn a_load_that_loses_a_message_reserves_another_range(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let mut last = 1;
    for_each_message(&setting, |lossy, what| {
        let mut table = open_at(&setting, lossy.address(&setting));
        for _ in 0..2 {
            let range = load_tag(&mut table);
            let (start, end) = range.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
            assert!(start >= last, "{what}: {start} is below {last}");
            assert_eq!(end, start + 10, "{what}");
            last = end;
        }
        assert_eq!(max_id_of_tag(&setting), last, "{what}");
    });
}
