//! The properties that must hold.

use std::env;
use std::sync::OnceLock;

/// The variable with the names of the properties to check; all if not set.
const ONLY: &str = "UIDRING_LEASES_ONLY";

/// A property, which must hold whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// No uid is issued twice.
    Once,
    /// A taker's uids increase.
    Order,
    /// The store's horizon covers what is issued.
    Covered,
    /// An owner issues nothing that the horizon at its acquire allowed to others.
    Above,
    /// An owner whose lease is live by its own account owns the row, unless it was fenced.
    Owner,
    /// After a lease ends or is given back, its owner issues only what was ready. For a cached generator, that is gone
    /// once the padder has looked.
    Ended,
    /// An id whose lease has expired can be leased and used.
    Progress,
}

impl Property {
    /// Stops all checks in this process; a follower judges instead.
    pub fn ignore_all() {
        let _ = chosen().set(Some(String::new()));
    }

    /// Panics if the property does not hold and is to be checked.
    pub fn check(self, holds: bool, what: impl FnOnce() -> String) {
        if holds {
            return;
        }
        let only = chosen().get_or_init(|| env::var(ONLY).ok());
        let name = format!("{self:?}");
        if only.as_ref().is_none_or(|only| only.split(',').any(|other| other == name)) {
            panic!("{name}: {}", what());
        }
    }
}

fn chosen() -> &'static OnceLock<Option<String>> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    &CHOSEN
}
