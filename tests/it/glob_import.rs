//! A glob import does not hide other crates that a program uses.

use uidring::*;

/// Fails to compile if `serde` or `metrics` are modules of this crate.
#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    #[serde(with = "uidring::serde_forms::base62")]
    id: Uid,
}

#[test]
fn serde_and_metrics_are_the_crates() {
    let order = Order { id: Uid::MAX };
    let text = serde_json::to_string(&order).expect("serializes");
    let read = serde_json::from_str::<Order>(&text).expect("reads");
    assert_eq!(read.id, Uid::MAX);
    metrics::counter!("orders").increment(1);
}
