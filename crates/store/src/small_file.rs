//! Files of settings and secrets.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// More than any of them holds: a device or a wrong file must not fill the memory.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file of settings, which is small.
///
/// # Errors
///
/// Those of the system, and one for a file of more than 1 MiB.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    read(File::open(path)?)
}

/// Reads a small file of secrets.
///
/// # Errors
///
/// As [`read_small_file`], and one for a file that others may read or change, or that belongs to another user but root.
pub fn read_private_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    check_is_private(&file)?;
    read(file)
}

/// Reads what is left of a small file.
pub(crate) fn read(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it has more than 1 MiB, and so is no file of settings: name another one",
        ));
    }
    Ok(bytes)
}

/// Its owner alone may read it, who is this user or root; root's also a group.
#[cfg(unix)]
pub(crate) fn check_is_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = file.metadata()?;
    if metadata.is_dir() || metadata.file_type().is_char_device() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a folder or a device: name a file",
        ));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "it belongs to another user ({owner}), who can read and change it: chown it to this user or to root"
            ),
        ));
    }
    let (mode, most) = (metadata.mode() & 0o777, if owner == 0 { 0o640 } else { 0o600 });
    if mode & !most & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("others may read or change it (mode {mode:03o}): chmod {most:o}"),
    ))
}

#[cfg(not(unix))]
pub(crate) fn check_is_private(_: &File) -> io::Result<()> {
    Ok(())
}
