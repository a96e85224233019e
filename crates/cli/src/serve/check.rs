//! The checks of `--check` besides the settings: whatever would fail a start, as far as this shows without changing
//! anything. Database servers are not asked.

use uidring_any::StoreUse;

use super::names::{Plan, Uids, about, warn_of_hidden_tags};
use super::sockets;
use crate::failure::Failure;

/// Checks sockets, files that must exist or be created, and chosen worker ids. Returns whether a start also asks a
/// server.
pub fn check(plan: Plan<'_>) -> Result<bool, Failure> {
    sockets::try_places(plan.args)?;
    for (index, uids) in plan.uids.iter().enumerate() {
        let checked = check_workers(uids, &plan.uids[..index]);
        checked.map_err(|failure| about(uids.name, failure))?;
    }
    if let Some(store) = &plan.segments {
        warn_of_hidden_tags(&plan.names(), &store.check_segments()?);
    }
    let is_server =
        |uids: &Uids<'_>| uids.store.as_ref().is_some_and(|s| s.worker_file().is_none());
    let asks_server = plan.uids.iter().any(is_server);
    // Building with a chosen worker id uses nothing up, and fails if two names have the same one.
    let chosen = plan.uids.into_iter().filter(|uids| uids.store.is_none());
    chosen.map(|uids| uids.build(plan.args.limits.wait)).collect::<Result<Vec<_>, _>>()?;
    Ok(asks_server)
}

/// Checks that the worker ids of a name are possible together with those of earlier names.
fn check_workers(uids: &Uids<'_>, before: &[Uids<'_>]) -> Result<(), Failure> {
    let Some(store) = &uids.store else { return Ok(()) };
    store.check(uids.wanted)?;
    let identity = store.identity();
    let is_same =
        |other: &&Uids<'_>| other.store.as_ref().is_some_and(|store| store.identity() == identity);
    for other in before.iter().filter(is_same) {
        match (uids.wanted, other.wanted) {
            (StoreUse::Lease(layout), StoreUse::Lease(found)) if layout != found => {
                return Err(Failure::Usage(format!(
                    "its leases would come from {store}, where another name leases worker ids for layout {found}, and \
                     have layout {layout}: a store has leases of one layout; name another store"
                )));
            }
            (StoreUse::Ordinal(..), StoreUse::Ordinal(..)) => {
                return Err(Failure::Usage(format!(
                    "its worker id would come from {store}, which has the ordinal's alone, and another name takes it; \
                     name another file"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}
