//! Whether a disk may be full. Where SQLite cannot enlarge the log's shared memory, it says only that a call failed.

use std::path::Path;

#[cfg(unix)]
use rustix::fs::{StatVfsMountFlags, statvfs};

/// SQLite enlarges the shared memory by as much.
const LITTLE: u64 = 32 << 10;

/// Returns how much is left on the disk of this file, if that is too little. Read-only images and some file systems
/// of user programs have no free blocks, or none at all, and are not full.
pub fn bytes_left(file: &Path) -> Option<u64> {
    bytes_free(file).filter(|left| *left < LITTLE)
}

/// Returns how much is left on the disk of this file, if that is known.
#[cfg(unix)]
pub fn bytes_free(file: &Path) -> Option<u64> {
    let file = std::path::absolute(file).ok()?;
    // The file's own, which a symbolic link may lead to. One that is to be created is not there yet.
    let disk = statvfs(&file).or_else(|_| statvfs(file.parent().unwrap_or(&file))).ok()?;
    let is_known = disk.f_blocks > 0 && !disk.f_flag.contains(StatVfsMountFlags::RDONLY);
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    is_known.then_some(left)
}

#[cfg(not(unix))]
pub fn bytes_free(_: &Path) -> Option<u64> {
    None
}
