//! What a server has to be like so that nothing comes twice; see `uidring_testkit::servers::conditions`.
#![cfg(unix)]

mod server;

use server::MariaDbServers;
use uidring_testkit::servers::conditions;

#[test]
fn settings_that_may_lose_commits_are_told_once_and_refused_on_demand() {
    conditions::settings_that_may_lose_commits_are_told_once_and_refused_on_demand::<MariaDbServers>(
    );
}

#[test]
fn tables_say_their_version_and_a_later_one_is_refused() {
    conditions::tables_say_their_version_and_a_later_one_is_refused::<MariaDbServers>();
}
