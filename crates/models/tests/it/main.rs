//! The models within bounds that take seconds, and each of their mutations.

mod lease_traces;
mod leases;
mod reservation;
mod reservation_traces;
mod segment_traces;
mod segments;

use uidring_models::Checked;

/// Asserts that every property holds, and that everything that should be possible happened, except `never`.
fn assert_holds(model: &str, checked: &Checked, never: &[&str]) {
    println!("{model} | {checked}");
    for (property, history) in &checked.violated {
        println!("{property} does not hold:\n{history}");
    }
    assert!(checked.violated.is_empty(), "{model}: see above");
    assert_eq!(checked.never, never, "{model}");
}
