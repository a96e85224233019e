//! Files of settings and secrets.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use uidring::Error;
use uidring::adapter::{Deadline, may_have_url};

use crate::TableError;
#[cfg(unix)]
use crate::warn_once::warn_once;

/// What went wrong with a file.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Keeps a device or a wrong file from filling the memory. Files of settings are smaller.
const MAX_BYTES: u64 = 1 << 20;

/// How long to wait for the first data of a pipe, and how often to check.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a small file of settings.
///
/// # Errors
///
/// Those of the system; a file of more than 1 MiB; a pipe that stays empty for ten seconds.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    read(open(path)?)
}

/// Reads a small file of secrets.
///
/// # Errors
///
/// As [`read_small_file`]. Also fails if others may read or change the file, or if its owner is neither this user nor
/// root.
pub fn read_private_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    check_is_private(&file)?;
    read(file)
}

/// Refuses an empty path, and a URL, whose password would appear in errors.
pub fn check_path(what: &'static str, path: &Path) -> Result<(), Error> {
    if path.as_os_str().is_empty() {
        let problem = "was to be named by its path, and the path is empty; name a file";
        return Err(TableError::Invalid { problem: format!("{what} {problem}") }.into());
    }
    if may_have_url(&path.to_string_lossy()) {
        return Err(Error::from(TableError::UrlForPath { what }));
    }
    Ok(())
}

/// Reads a file of secrets. Errors repeat nothing of it.
pub fn read_secret(what: &'static str, path: &Path) -> Result<String, Error> {
    let text = |bytes: &[u8]| match str::from_utf8(bytes) {
        // Some editors begin a file with a byte order mark.
        Ok(text) => Ok(text.trim_start_matches('\u{feff}').to_owned()),
        Err(_) => Err("it is no UTF-8 text".into()),
    };
    Ok(read_as(what, path, |_| Ok(()), text)?.0)
}

/// Checks, reads and parses a file that a connection needs. Also returns its bytes.
pub(crate) fn read_as<T>(
    what: &'static str,
    path: &Path,
    check: impl FnOnce(&File) -> io::Result<()>,
    parse: impl FnOnce(&[u8]) -> Result<T, Cause>,
) -> Result<(T, Vec<u8>), Error> {
    check_path(what, path)?;
    let parsed = || {
        let file = open(path)?;
        check(&file)?;
        let bytes = read(file)?;
        Ok((parse(&bytes)?, bytes))
    };
    parsed()
        .map_err(|source| TableError::DatabaseFile { what, path: path.to_owned(), source }.into())
}

/// Warns if every user may read a file that holds a password. Unlike [`read_private_file`], it does not refuse: secrets
/// that a container mounts often have such a mode.
pub fn warn_if_exposed(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = path.metadata()
        && std::os::unix::fs::MetadataExt::mode(&metadata) & 0o004 != 0
    {
        let path = path.display();
        warn_once(format!(
            "{path} holds a password, and its mode lets every user read it: chmod o-r"
        ));
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Opens a file. Does not wait for the writer of a FIFO; [`read`] does.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(path, flags | OFlags::NONBLOCK, Mode::empty())?;
    // Makes reads wait for a writer that has it open.
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file.into())
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads the rest of a small file.
fn read(file: File) -> io::Result<Vec<u8>> {
    let (is_pipe, deadline) = (is_pipe(&file)?, Deadline::after(Some(PATIENCE)));
    let (mut file, mut bytes) = (file.take(MAX_BYTES + 1), Vec::new());
    while file.read_to_end(&mut bytes)? == 0 && is_pipe {
        if deadline.is_over() {
            let problem = "it is a pipe, and nobody has written to it";
            return Err(io::Error::new(ErrorKind::TimedOut, problem));
        }
        thread::sleep(PAUSE);
    }
    if bytes.len() as u64 > MAX_BYTES {
        let problem = "it has more than 1 MiB, and so is no file of settings: name another one";
        return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(std::os::unix::fs::FileTypeExt::is_fifo(&file.metadata()?.file_type()))
}

#[cfg(not(unix))]
fn is_pipe(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Checks that the owner is this user or root, and that nobody else may read it except a group of root's file.
#[cfg(unix)]
pub(crate) fn check_is_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = file.metadata()?;
    let refuse = |kind, problem: String| Err(io::Error::new(kind, problem));
    if metadata.is_dir() || metadata.file_type().is_char_device() {
        return refuse(ErrorKind::InvalidInput, "it is a folder or a device: name a file".into());
    }
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let problem = format!(
            "it belongs to another user ({owner}), who can read and change it: chown it to this user or to root"
        );
        return refuse(ErrorKind::PermissionDenied, problem);
    }
    let (mode, most) = (metadata.mode() & 0o777, if owner == 0 { 0o640 } else { 0o600 });
    if mode & !most & 0o077 == 0 {
        return Ok(());
    }
    let problem = format!("others may read or change it (mode {mode:03o}): chmod {most:o}");
    refuse(ErrorKind::PermissionDenied, problem)
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
    fn a_pipe_is_read_to_its_end_and_not_waited_for_in_vain() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().expect("runs");
        assert!(made.success());
        let error = read_small_file(&path).expect_err("nobody writes");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let mut writer = Command::new("sh");
        writer.args(["-c", "exec > \"$0\"; sleep 0.2; echo url"]).arg(&path);
        let mut writer = writer.spawn().expect("runs");
        assert_eq!(read_small_file(&path).expect("written"), b"url\n");
        writer.wait().expect("ends");
    }
}
