//! The metrics of a generator with a leased worker id, of one on the clock and of segments, as Prometheus
//! reads them.
//!
//! `cargo run -p uidring-sqlite --example metrics > metrics.txt`

use std::error::Error;

use metrics_exporter_prometheus::PrometheusBuilder;
use uidring::metrics_facade::{describe, publish};
use uidring::{CachedUidGenerator, ClockedUidGenerator, SegmentGenerator};
use uidring_sqlite::SqliteStore;
use uidring_store::{NewSegmentTag, SegmentTable};

fn main() -> Result<(), Box<dyn Error>> {
    let exporter = PrometheusBuilder::new().install_recorder()?;
    describe();

    let folder = tempfile::tempdir()?;
    let store = SqliteStore::new(folder.path().join("uidring.db")).create(true);
    let orders = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
    let events = ClockedUidGenerator::snowflake().worker_id(7).build()?;
    let segments = store.segments();
    segments.create_tag(&NewSegmentTag::new("invoices", 1_000)?)?;
    let numbers = SegmentGenerator::builder(segments).build()?;
    for _ in 0..100 {
        orders.next_uid()?;
        events.next_uid()?;
        numbers.next_id("invoices")?;
    }

    // At each scrape:
    publish("orders", &orders.stats());
    publish("events", &events.stats());
    for tag in numbers.tags()? {
        publish("numbers", &(&*tag, numbers.stats(&tag)?));
    }
    let text = exporter.render();
    assert!(text.contains("uidring_taken_total{generator=\"orders\"} 100\n"), "{text}");
    print!("{text}");
    Ok(())
}
