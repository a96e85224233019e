//! Finds out whether a disk may be full. If SQLite cannot enlarge the log's shared memory, it reports only a failed
//! call.

use std::path::Path;

#[cfg(unix)]
use rustix::fs::{StatVfsMountFlags, statvfs};

/// The step by which SQLite enlarges the shared memory.
pub const LITTLE: u64 = 32 << 10;

/// Returns the free bytes on the file's disk, if known. Read-only images and some FUSE file systems report none,
/// without being full.
#[cfg(unix)]
pub fn bytes_free(file: &Path) -> Option<u64> {
    let file = std::path::absolute(file).ok()?;
    // A symbolic link may lead to another disk, so ask for the file first. If it does not exist yet, ask for its
    // folder.
    let disk = statvfs(&file).or_else(|_| statvfs(file.parent().unwrap_or(&file))).ok()?;
    let is_known = disk.f_blocks > 0 && !disk.f_flag.contains(StatVfsMountFlags::RDONLY);
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    is_known.then_some(left)
}

#[cfg(not(unix))]
pub fn bytes_free(_: &Path) -> Option<u64> {
    None
}
