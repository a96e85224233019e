//! A MySQL-compatible server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod server;

use uidring_testkit::suite;
use uidring_testkit::suite::engine::StoreOn;

use server::MariaDbServers;

suite! {
    mod mysql: StoreOn::<MariaDbServers>::new(&[]),
}

#[test]
fn loads_at_once_have_no_id_in_common_on_servers_of_every_temper() {
    static SERIALIZABLE: StoreOn<MariaDbServers> =
        StoreOn::new(&["--transaction-isolation=SERIALIZABLE"]);
    // The default of later servers; those before it ignore it.
    static SNAPSHOT: StoreOn<MariaDbServers> =
        StoreOn::new(&["--loose-innodb-snapshot-isolation=ON"]);
    for store in [&SERIALIZABLE, &SNAPSHOT] {
        suite::segments::loads_at_once_have_no_id_in_common(store);
    }
}
