//! Finds a second name of a file.
//!
//! SQLite keeps the log and the shared memory of a database beside it, by its name; so do we the count of
//! commits. Under two names, by a hard link or as a mount point of its own, one file has two of each.
//! Processes that use different names do not see each other's commits and hand out the same numbers, and
//! each writes its log over the other's pages. A symbolic link is no second name: SQLite follows it first.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use uidring::adapter::log;

use super::create::remove_temporary_names;
use super::format::Problem;
use super::volume;

/// What is known of the names of a file, for as long as a table of it is in use.
///
/// Both flags are Relaxed: nothing else is read by their order. They are no `Once`, in which a forked child
/// would wait for a thread of its parent.
#[derive(Debug, Default)]
pub struct Names {
    /// Set when it was opened by its only name. A process that finds a name that was added later is refused,
    /// so this one may go on. Two that each opened it by its only name, because it was moved in between and then
    /// linked to its old name, are told by their [counts](super::commits) of commits, but not always before ids repeat:
    /// docs/sqlite.md says so.
    was_alone: AtomicBool,
    warned: AtomicBool,
}

impl Names {
    /// Refuses a file with a second name. Warns once instead if that appeared while the file was in use.
    pub fn check(&self, path: &Path) -> Result<(), Problem> {
        let Some(found) = second_name(path) else {
            self.was_alone.store(true, Ordering::Relaxed);
            return Ok(());
        };
        if !self.was_alone.load(Ordering::Relaxed) {
            return Err(Problem::Denied(found));
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            log!(
                warn,
                "{}: {found}. This was not so when the file was opened; the next start is refused",
                path.display()
            );
        }
        Ok(())
    }
}

/// Says which other name a file has, and what to do.
pub fn second_name(path: &Path) -> Option<String> {
    if volume::is_mount_point(path) {
        return Some(
            "the file is a mount point itself, so that its log is not beside it under its other name, and \
             ids repeat: mount the folder that it is in instead"
                .into(),
        );
    }
    if links(path) > 1 {
        // A process that was killed while it created the file, or has just done so, leaves one.
        remove_temporary_names(path);
    }
    let links = links(path);
    (links > 1).then(|| {
        format!(
            "the file has {links} names (hard links), each with a log of its own, so that ids repeat: \
             remove the others (`find DIRECTORY -samefile FILE` finds them), and make backups by copies, \
             not by links"
        )
    })
}

#[cfg(unix)]
fn links(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map_or(0, |found| found.nlink())
}

#[cfg(not(unix))]
fn links(_: &Path) -> u64 {
    1
}
