//! The core that a padder runs on.

use core_affinity::CoreId;

use crate::error::Error;
use crate::sync::log;

/// The core on which a padder runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PadderCore {
    /// The last core that this process may use, if it may use more than one.
    #[default]
    Last,
    /// This core, by its number in the operating system.
    Id(usize),
    /// Wherever the operating system likes.
    Unpinned,
}

/// The core to pin to, if any.
pub(super) fn find(wanted: PadderCore) -> Result<Option<CoreId>, Error> {
    // None where the platform does not tell; then only `Id` is an error.
    let cores = || core_affinity::get_core_ids().unwrap_or_default();
    match wanted {
        PadderCore::Unpinned => Ok(None),
        PadderCore::Last => Ok(match cores().as_slice() {
            [_, .., last] => Some(*last),
            _ => None,
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

/// Pins the calling thread. That a core which exists refuses it is no reason to stop.
pub(super) fn pin(core: Option<CoreId>) {
    let Some(core) = core else { return };
    if !core_affinity::set_for_current(core) {
        log!(warn, core = core.id, "the padder could not be pinned; it runs unpinned");
    }
}
