//! Finds a second name of a file.
//!
//! The log, the shared memory and the count of commits are beside the database, under its name. A file with two names,
//! by a hard link or as a mount point, has two of each. Processes with different names do not see each other's commits:
//! they hand out the same numbers, and write their logs over each other's pages. A symbolic link is no second name,
//! because SQLite follows it first.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use uidring_store::warn_once;

use super::create::remove_temporary_names;
use super::format::Problem;
use super::volume;

/// What is known of a file's names while one of its tables is in use.
///
/// The flag is Relaxed: it orders no other reads.
#[derive(Debug, Default)]
pub struct Names {
    /// The file had a single name when it was checked. A later one is allowed here, because processes that use it are
    /// refused. If the file is moved, opened, and linked back, two processes may each find a single name. Their
    /// [counts](super::commits) of commits reveal that, but not always before ids repeat (see docs/sqlite.md).
    was_alone: AtomicBool,
}

impl Names {
    /// Refuses a file with a second name. Warns instead, once per process, if the name appeared while the file was in
    /// use.
    pub fn check(&self, path: &Path) -> Result<(), Problem> {
        let Some(found) = second_name(path) else {
            self.was_alone.store(true, Ordering::Relaxed);
            return Ok(());
        };
        if !self.was_alone.load(Ordering::Relaxed) {
            return Err(Problem::Denied(found));
        }
        warn_once(format!(
            "{}: {found}. This was not so when the file was opened; the next start is refused",
            path.display()
        ));
        Ok(())
    }
}

/// Says what the second name is, if there is one, and what to do.
pub fn second_name(path: &Path) -> Option<String> {
    if volume::is_mount_point(path) {
        return Some(
            "the file is a mount point itself, so that its log is not beside it under its other name, and \
             ids repeat: mount the folder that it is in instead"
                .into(),
        );
    }
    if links(path) > 1 {
        // A process that creates the file, or was killed meanwhile, leaves a temporary name.
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
