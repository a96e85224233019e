//! A MySQL-compatible server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;

use uidring_testkit::suite;

use store::MySql;

suite! {
    mod mysql: MySql(&[]),
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
fn loads_at_once_have_no_id_in_common_on_servers_of_every_temper() {
    static SERIALIZABLE: MySql = MySql(&["--transaction-isolation=SERIALIZABLE"]);
    // The default of later servers; those before it ignore it.
    static SNAPSHOT: MySql = MySql(&["--loose-innodb-snapshot-isolation=ON"]);
    for store in [&SERIALIZABLE, &SNAPSHOT] {
        suite::segments::loads_at_once_have_no_id_in_common(store);
    }
}
