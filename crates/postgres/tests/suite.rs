//! A PostgreSQL server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod server;

use uidring_testkit::suite;
use uidring_testkit::suite::engine::StoreOn;

use server::PostgresServers;

suite! {
    mod postgres: StoreOn::<PostgresServers>::new(&[]),
}

#[test]
fn loads_at_once_have_no_id_in_common_on_a_serializable_server() {
    static SERIALIZABLE: StoreOn<PostgresServers> =
        StoreOn::new(&["default_transaction_isolation=serializable", "synchronous_commit=off"]);
    suite::segments::loads_at_once_have_no_id_in_common(&SERIALIZABLE);
}
