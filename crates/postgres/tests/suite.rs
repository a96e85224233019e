//! A PostgreSQL server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;

use uidring_testkit::suite;

use store::PostgreSql;

suite! {
    mod postgres: PostgreSql(&[]),
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    segments: yes,
    server: yes,
    network: yes,
    herd: yes,
    own_clock: yes,
}

#[test]
fn loads_at_once_have_no_id_in_common_on_a_serializable_server() {
    static SERIALIZABLE: PostgreSql =
        PostgreSql(&["default_transaction_isolation=serializable", "synchronous_commit=off"]);
    suite::segments::loads_at_once_have_no_id_in_common(&SERIALIZABLE);
}
