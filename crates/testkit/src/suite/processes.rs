//! Holders of leases in their own processes, which are killed, paused beyond their lease, or have a wrong clock.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use uidring::{CachedUidGenerator, TakeError, Uid};

use super::setting::{LIMIT, SHORT, Setting, layout, place, until};
use super::store::{Store, Terms};
use crate::child::{Child, this_test};
use crate::namespace::fresh;
use crate::{chain, request};

/// Long enough for a busy machine to renew it.
const LASTS: Duration = Duration::from_secs(3);

/// A holder's orders: milliseconds to wait for a lease, and the store's address.
const ORDERS: &str = "UIDRING_SUITE_HOLDER";

/// Not a test by itself: a holder. It prints each uid before it takes the next.
pub fn child(store: &'static dyn Store) {
    if super::ranges::child(store) {
        return;
    }
    let Ok(orders) = env::var(ORDERS) else { return };
    let (millis, address) = orders.split_once(' ').expect("two words");
    let wait_for = Duration::from_millis(millis.parse().expect("a number"));
    let layout = layout(1);
    let terms = Terms { lasts: LASTS, wait_for };
    let lease = match store.lease(&place(address.to_owned()), &request(layout), &terms) {
        Ok(lease) => lease,
        Err(error) => return println!("refused {}", chain(&error)),
    };
    let builder = CachedUidGenerator::builder().layout(layout).worker(lease).namespace(fresh());
    let generator = match builder.refresh(Duration::from_millis(100)).build() {
        Ok(generator) => generator,
        Err(error) => return println!("refused {}", chain(&error)),
    };
    println!("held {}", generator.worker_id());
    // Ends when the parent closes its end.
    let input = thread::spawn(|| io::stdin().lines().next());
    let error = loop {
        match generator.next_uid() {
            Ok(uid) => println!("{uid}"),
            Err(error) => break error,
        }
        if input.is_finished() {
            generator.close();
            return println!("closed");
        }
        thread::sleep(Duration::from_millis(1));
    };
    let later = [0; 100].map(|_| generator.try_next_uid());
    assert!(later.iter().all(|taken| *taken == Err(TakeError::LeaseLost)));
    println!("ended {error}");
    io::stdout().flush().expect("written");
}

/// A process that holds a lease or was refused one. Killed on drop.
struct Holder {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Holder {
    /// `test` is the path of the test that calls [`child`].
    fn start(setting: &Setting, test: &str, wait_for: Duration, clock: Option<i64>) -> Self {
        let (_, test) = test.split_once("::").expect("a crate and more");
        let mut command = this_test(test);
        command
            .env(ORDERS, format!("{} {}", wait_for.as_millis(), setting.site().address(0)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(seconds) = clock {
            command
                .env("LD_PRELOAD", faketime())
                .env("FAKETIME", format!("{seconds:+}"))
                // Only the wall clock; a monotonic clock does not jump.
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = Child::spawn(&mut command);
        let output = BufReader::new(child.stdout().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let lines = Arc::clone(&lines);
            move || {
                for line in output.lines().map_while(Result::ok) {
                    lines.lock().expect("whole").push(line);
                }
            }
        });
        Self { child, lines, reader: Some(reader) }
    }

    /// Returns the rest of the line with this beginning, once it is there.
    fn word(&self, begin: &str) -> Option<String> {
        let lines = self.lines.lock().expect("whole");
        // The test program may have begun the line.
        lines.iter().find_map(|line| Some(line.split_once(begin)?.1.trim().to_owned()))
    }

    fn uids(&self) -> Vec<Uid> {
        let lines = self.lines.lock().expect("whole");
        lines.iter().filter_map(|line| line.parse().ok()).collect()
    }

    fn kill(&mut self) {
        self.child.kill();
        self.wait();
    }

    /// Makes it give back its lease.
    fn close(&mut self) {
        drop(self.child.stdin());
        until("the holder's end", || self.word("closed").is_some());
        self.wait();
    }

    fn wait(&mut self) {
        self.child.wait(LIMIT).expect("it ends");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reads");
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn the_lease_of_a_killed_holder_is_had_above_all_it_issued(
    store: &'static dyn Store,
    test: &str,
) {
    let setting = Setting::shared(store).worker_bits(1);
    let mut floor = None;
    for _ in 0..2 {
        let mut holder = Holder::start(&setting, test, LIMIT, None);
        until("some uids", || holder.uids().len() > 100);
        holder.kill();
        let uids = holder.uids();
        assert!(uids.is_sorted_by(|a, b| a < b) && floor < uids.first().copied(), "{floor:?}");
        floor = uids.last().copied();
        let lease = setting.lease_for(SHORT, LIMIT).expect("it runs out");
        assert_eq!(Some(lease.worker_id().to_string()), holder.word("held "));
        assert!(lease.after() >= floor, "{:?} is below {floor:?}", lease.after());
        let generator = setting.generator(lease);
        let uid = generator.next_uid().expect("ready");
        assert!(floor < Some(uid), "{uid} after {floor:?}");
        floor = Some(uid);
    }
}

/// Meanwhile others get its worker id. Nothing repeats, and soon after it continues it notices.
pub fn a_holder_that_was_paused_beyond_its_lease_repeats_nothing(
    store: &'static dyn Store,
    test: &str,
) {
    let setting = Setting::shared(store).worker_bits(1);
    let mut holder = Holder::start(&setting, test, LIMIT, None);
    until("some uids", || holder.uids().len() > 100);
    holder.child.freeze();
    let stopped = Instant::now();
    let generator = setting.generator(setting.lease_for(SHORT, LIMIT).expect("it runs out"));
    assert_eq!(Some(generator.worker_id().to_string()), holder.word("held "));
    let mut seen: HashSet<Uid> = HashSet::new();
    while stopped.elapsed() < 2 * LASTS {
        assert!(seen.insert(generator.next_uid().expect("held")));
        thread::sleep(Duration::from_millis(1));
    }
    holder.child.thaw();
    // While the paused holder goes on with what it has.
    until("the end of the one that was paused", || {
        assert!(seen.insert(generator.next_uid().expect("held")));
        holder.word("ended ").is_some()
    });
    holder.wait();
    assert_eq!(holder.word("ended ").as_deref(), Some(TakeError::LeaseLost.to_string().as_str()));
    for uid in holder.uids() {
        assert!(seen.insert(uid), "{uid} came twice");
    }
    generator.next_uid().expect("still held");
}

/// A start whose clock is wrong by minutes neither takes a live lease nor repeats anything.
pub fn a_wrong_clock_ends_nobodys_lease(store: &'static dyn Store, test: &str) {
    const WRONG: i64 = 300;
    for seconds in [WRONG, -WRONG] {
        let setting = Setting::shared(store).worker_bits(1);
        let lease = setting.lease_for(SHORT, Duration::ZERO).expect("free");
        let owner = setting.generator(lease);
        let first = owner.next_uid().expect("ready");
        let wrong = Holder::start(&setting, test, Duration::ZERO, Some(seconds));
        until("an answer", || {
            owner.next_uid().expect("held");
            wrong.word("refused ").is_some() || wrong.word("held ").is_some()
        });
        assert_eq!(wrong.word("held "), None, "a live lease was taken, {seconds} s off");
        drop(wrong);
        let last = owner.next_uid().expect("held");
        assert!(first < last);
        owner.close();
        let mut wrong = Holder::start(&setting, test, LIMIT, Some(seconds));
        until("some uids", || wrong.uids().len() > 10 || wrong.word("refused ").is_some());
        if wrong.word("refused ").is_some() {
            continue;
        }
        wrong.close();
        assert!(wrong.uids().iter().all(|uid| *uid > last), "below {last}");
        // Others may refuse a worker id that was used ahead of their clocks.
        if let Ok(lease) = setting.lease_for(LASTS, Duration::ZERO) {
            let next = setting.generator(lease).next_uid();
            assert!(wrong.uids().last() < next.as_ref().ok(), "{next:?}");
        }
    }
}

/// Debian's library, in a folder named after the architecture.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("a folder of libraries").flatten();
    let paths = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let found = paths.into_iter().find(|path| path.exists());
    found.expect("no libfaketime here: install it with `apt-get install libfaketime`")
}
