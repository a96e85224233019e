//! Histories of the lease code. Each step has to be one of the model's.

mod follower;
mod takes;

use uidring_simulation::Histories;

use self::follower::Validator;

/// docs/lease-model.md, "Traces", says what is compared.
#[test]
fn histories_of_leases_are_histories_of_the_model() {
    let replay = "cargo test -p uidring-models histories_of_leases_are";
    let counts = Histories::from_env(2_000, replay).run_followed(Validator::new);
    println!("{counts:?}");
}
