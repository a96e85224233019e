//! Histories of the code of a ZooKeeper registry, each step of which has to be one of the model's.

mod instance;
mod takes;
mod validator;

use uidring::model::Histories;
use uidring_zookeeper::model::run_followed;

use self::validator::Validator;

/// docs/lease-model.md, "Traces", says what is compared.
#[test]
fn histories_of_reservations_are_histories_of_the_model() {
    let replay = "cargo test -p uidring-models histories_of_reservations_are";
    run_followed(Histories::from_env(300, replay), Validator::new);
}
