//! Files of settings and secrets.

use std::fs::{File, OpenOptions};
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
    read(open(path)?)
}

/// Reads a small file of secrets.
///
/// # Errors
///
/// As [`read_small_file`], and one for a file that others may read or change, or that belongs to another user but root.
pub fn read_private_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    check_is_private(&file)?;
    read(file)
}

/// Opens a file without waiting for whoever is to write to it. A FIFO that nobody has open for writing is empty; others,
/// as of `<(command)`, are read to their end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.read(true).open(path)?;
    #[cfg(unix)]
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok(file)
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

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_fifo_is_read_to_its_end_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        let made = Command::new("mkfifo").arg(&path).status().expect("runs");
        assert!(made.success());
        assert_eq!(read_small_file(&path).expect("nobody writes"), b"");
        let mut writer = Command::new("sh");
        writer.args(["-c", "exec > \"$0\"; sleep 0.2; echo url"]).arg(&path);
        let mut writer = writer.spawn().expect("runs");
        let mut text = Vec::new();
        // It is empty until the writer has opened it.
        while text.is_empty() {
            text = read_small_file(&path).expect("reads");
        }
        assert_eq!(text, b"url\n");
        writer.wait().expect("ends");
    }
}
