//! What must hold, each a property by name.

use std::env;
use std::sync::OnceLock;

/// The only properties to look at, by their names; all if not set.
const ONLY: &str = "UIDRING_LEASES_ONLY";

/// What must hold, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// No uid is issued twice, by whomever.
    Once,
    /// A taker's uids increase.
    Order,
    /// The store's horizon covers whatever is issued.
    Covered,
    /// An owner issues nothing that the horizon at its beginning allowed to others.
    Above,
    /// Whose lease lasts by its own account is the row's owner, unless it was fenced.
    Owner,
    /// Whose lease is over, or given back, issues no more than what was ready; and that of the
    /// cached generator is gone when the padder has looked.
    Ended,
    /// An id whose lease has run out can be had, and used.
    Progress,
}

impl Property {
    /// Has none of them checked in this process: somebody else judges what happens.
    pub fn ignore_all() {
        let _ = chosen().set(Some(String::new()));
    }

    /// Panics if it does not hold, unless others are looked at.
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

/// What [`ONLY`] says.
fn chosen() -> &'static OnceLock<Option<String>> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    &CHOSEN
}
