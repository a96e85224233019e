//! What the tests of this binary share.

use uidring_postgres::PostgresStore;
use uidring_testkit::postgres::Database;
use uidring_testkit::proxy::Proxy;

pub fn store_at(url: &str) -> PostgresStore {
    PostgresStore::from_url(url).expect("a URL")
}

pub fn store(database: &Database) -> PostgresStore {
    store_at(&database.url())
}

pub fn through(database: &Database, proxy: &Proxy) -> PostgresStore {
    store_at(&database.url_at(&format!("127.0.0.1:{}", proxy.port())))
}
