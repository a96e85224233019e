//! Dense numbers by tag: two generators, as in two processes, count through ranges that they reserve in the same
//! table.
//!
//! `cargo run -p uidring-sqlite --example segments`

use std::collections::BTreeSet;

use uidring::SegmentGenerator;
use uidring_sqlite::{NewSegmentTag, SegmentTable, SqliteStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let table = SqliteStore::new(folder.path().join("uidring.db")).segments();
    table.create_tag(&NewSegmentTag::new("orders", 100)?)?;
    table.create_tag(&NewSegmentTag::new("invoices", 10)?.start(2_026_000)?)?;

    let start = || SegmentGenerator::builder(table.clone()).build();
    let (first, second) = (start()?, start()?);
    assert_eq!(first.next_id("invoices")?, 2_026_000);
    assert_eq!(first.next_id("invoices")?, 2_026_001);

    // A handle finds its tag once.
    let (left, right) = (first.tag("orders")?, second.tag("orders")?);
    let mut orders = BTreeSet::new();
    for _ in 0..1_000 {
        assert!(orders.insert(left.next_id()?) && orders.insert(right.next_id()?));
    }
    // Numbers that are missing are in a range that one of the two has reserved, and still to come.
    println!("2,000 orders from {:?} to {:?}", orders.first(), orders.last());
    assert_eq!((orders.len(), orders.first()), (2_000, Some(&1)));
    Ok(())
}
