//! What `--check` looks at besides the settings: what a start would fail on, as far as that shows while nothing is
//! changed. Database servers are not asked.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use uidring::Layout;
use uidring_any::WorkerKind;

use super::names::{Plan, Uids};
use super::sockets;
use crate::failure::Failure;

/// Checks sockets, and files that have to be there, or to be made.
pub fn check(plan: &Plan<'_>) -> Result<(), Failure> {
    sockets::try_places(plan.args)?;
    let mut leases = HashMap::new();
    for uids in &plan.uids {
        check_workers(uids, &mut leases).map_err(|failure| uids.about(failure))?;
    }
    if let Some(store) = &plan.segments {
        plan.warn_of_hidden_tags(&store.check_segments()?);
    }
    Ok(())
}

/// Checks the worker ids of a name. `leases` are the files from which names lease theirs, and with which layout.
fn check_workers(uids: &Uids<'_>, leases: &mut HashMap<PathBuf, Layout>) -> Result<(), Failure> {
    let Some(store) = &uids.store else { return Ok(()) };
    let layout = uids.layout.layout;
    let is_leased = uids.worker == WorkerKind::Leased;
    store.check_workers(is_leased.then_some(&layout))?;
    let Some(file) = store.worker_file().filter(|_| is_leased) else { return Ok(()) };
    let path = fs::canonicalize(&file).or_else(|_| std::path::absolute(&file))?;
    match leases.insert(path, layout) {
        Some(other) if other != layout => Err(Failure::Usage(format!(
            "its leases would come from {}, where another name leases worker ids for layout {other}, and have \
             layout {layout}: a file has leases of one layout; name another file",
            file.display()
        ))),
        _ => Ok(()),
    }
}
