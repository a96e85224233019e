//! What the tests of this binary share.

use std::sync::atomic::{AtomicBool, Ordering};

use uidring_postgres::PostgresStore;
use uidring_testkit::postgres::Database;
use uidring_testkit::proxy::{Proxy, Verdict};

pub fn store_at(url: &str) -> PostgresStore {
    PostgresStore::from_url(url).expect("a URL")
}

pub fn store(database: &Database) -> PostgresStore {
    store_at(&database.url())
}

pub fn through(database: &Database, proxy: &Proxy) -> PostgresStore {
    store_at(&database.url_at(&format!("127.0.0.1:{}", proxy.port())))
}

/// A proxy that ends the first connection that asks for this, when the server has got it and before the
/// client gets an answer.
pub fn lost_answer(database: &Database, text: &'static str) -> Proxy {
    let (asked, cut) = (AtomicBool::new(false), AtomicBool::new(false));
    Proxy::with(database.server().port(), move |chunk| {
        if chunk.asks(text) {
            asked.store(true, Ordering::SeqCst);
        }
        let is_answer = chunk.answers() && asked.load(Ordering::SeqCst);
        match is_answer && !cut.swap(true, Ordering::SeqCst) {
            true => Verdict::Cut,
            false => Verdict::Forward,
        }
    })
}
