//! Whether a disk is full. Where SQLite cannot enlarge the log's shared memory, it says only that a call failed.

use std::path::Path;

/// SQLite enlarges the shared memory by as much.
#[cfg(unix)]
const LITTLE: u64 = 32 << 10;

/// Returns how much is left on the disk of this file, if that is too little.
#[cfg(unix)]
pub fn bytes_left(file: &Path) -> Option<u64> {
    let file = std::path::absolute(file).ok()?;
    let disk = rustix::fs::statvfs(file.parent()?).ok()?;
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    (left < LITTLE).then_some(left)
}

#[cfg(not(unix))]
pub fn bytes_left(_: &Path) -> Option<u64> {
    None
}
