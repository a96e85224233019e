//! Answers that are lost after the server has executed the request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::Layout;
use uidring_etcd::{EtcdStore, LeaseState, LeaseTable, WorkerTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::proxy::{Proxy, Verdict};

use crate::support::{fresh, generator, options, row};

/// A proxy that ends the connection instead of every fourth answer, and how many it has taken.
fn fourth_lost(server: &Etcd) -> (Proxy, Arc<AtomicUsize>) {
    let (answers, lost) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let taken = Arc::clone(&lost);
    let proxy = Proxy::with(server.port(), move |chunk| {
        if chunk.answers() && answers.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
            taken.fetch_add(1, Ordering::Relaxed);
            return Verdict::Cut;
        }
        Verdict::Forward
    });
    (proxy, lost)
}

fn through(proxy: &Proxy, prefix: &str) -> EtcdStore {
    let store = EtcdStore::new(&format!("127.0.0.1:{}", proxy.port())).expect("endpoints");
    store.prefix(prefix).expect("a prefix").deadline(Duration::from_secs(20))
}

#[test]
fn a_worker_id_whose_answer_was_lost_is_spent_and_never_had_again() {
    let server = Etcd::shared();
    let (proxy, lost) = fourth_lost(&server);
    let ids = through(&proxy, "/lost-ids").worker_ids();
    let mut had = BTreeSet::new();
    for _ in 0..30 {
        let id = ids.assign(&Layout::UID_GENERATOR).expect("tried again");
        assert!(had.insert(id), "{id} twice");
        assert_eq!(had.last(), Some(&id), "they grow");
    }
    assert!(lost.load(Ordering::Relaxed) >= 10);
    assert!(had.last() > Some(&30), "none was spent: {had:?}");
}

#[test]
fn a_holder_recognises_what_it_wrote_itself() {
    let server = Etcd::shared();
    let (proxy, lost) = fourth_lost(&server);
    let store = through(&proxy, "/lost-leases");
    let direct = fresh(&server).prefix("/lost-leases").expect("a prefix");
    let mut last = None;
    for round in 1..=3 {
        // Long enough for a busy machine.
        let holder = generator(&store, &options().lasts(Duration::from_secs(5)));
        let worker_id = holder.worker_id();
        let token = row(&direct, worker_id).token;
        // Every fourth request loses its answer.
        let begin = Instant::now();
        while lost.load(Ordering::Relaxed) < 2 * round {
            assert!(begin.elapsed() < Duration::from_secs(60), "it is renewed");
            let uid = holder.next_uid().expect("held");
            assert!(last < Some(uid));
            last = Some(uid);
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(row(&direct, worker_id).token, token);
        holder.close();
        let free = row(&direct, worker_id);
        assert_eq!((free.state, free.token), (LeaseState::Free, token + 1));
    }
    assert!(lost.load(Ordering::Relaxed) >= 6);
    assert_eq!(direct.leases().list().expect("listed").len(), 1, "one row serves them all");
}
