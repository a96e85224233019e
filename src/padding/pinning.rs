//! The core that a padder runs on.

use core_affinity::CoreId;

use crate::error::Error;
use crate::sync::log;

/// The core on which a padder runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadderCore {
    /// One of the cores that this process may use, if it may use more than one. The worker id chooses it, so
    /// that the padders of a machine's processes do not all run on the same core. A padder that no generator
    /// has started for itself runs on the last one.
    #[default]
    ByWorker,
    /// The last core that this process may use, if it may use more than one.
    Last,
    /// This core, by its number in the operating system.
    Id(usize),
    /// Wherever the operating system likes.
    Unpinned,
}

/// Returns the core to pin to, if any.
pub(super) fn find(wanted: PadderCore, worker_id: Option<u64>) -> Result<Option<CoreId>, Error> {
    // Empty if the platform does not list them; then only `Id` is an error.
    let cores = || core_affinity::get_core_ids().unwrap_or_default();
    match wanted {
        PadderCore::Unpinned => Ok(None),
        PadderCore::ByWorker | PadderCore::Last => Ok(match (cores().as_slice(), worker_id) {
            ([] | [_], _) => None,
            (cores, Some(worker_id)) if wanted == PadderCore::ByWorker => {
                // From the end, because programs mostly pin their own threads from the first core on.
                let back = (worker_id % cores.len() as u64) as usize;
                cores.get(cores.len() - 1 - back).copied()
            }
            ([.., last], _) => Some(*last),
        }),
        PadderCore::Id(id) => {
            let cores = cores();
            match cores.iter().find(|core| core.id == id) {
                Some(core) => Ok(Some(*core)),
                None => Err(Error::NoSuchCore {
                    core: id,
                    available: cores.iter().map(|core| core.id).collect(),
                }),
            }
        }
    }
}

/// Pins the calling thread. A failure is logged only: the padder also works unpinned.
pub(super) fn pin(core: Option<CoreId>) {
    let Some(core) = core else { return };
    if !core_affinity::set_for_current(core) {
        log!(warn, core = core.id, "the padder could not be pinned; it runs unpinned");
    }
}
