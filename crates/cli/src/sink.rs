//! Writes ids to stdout or into a file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use uidring_store::check_path;
use uidring_store::files::open_regular;

use crate::failure::Failure;
use crate::stdio;

/// stdout or a file. Has no buffer, so that a failed write shows exactly what is out.
pub struct Sink {
    output: File,
    /// The path of the file, unless it is stdout.
    pub path: Option<PathBuf>,
    /// Whether it is a regular file and not a device: what is written is safe on a disk after [`finish`](Self::finish).
    pub is_file: bool,
    is_new: bool,
}

/// Opens a file that is new or empty, a device, or, without a path, stdout.
pub fn open(path: Option<&Path>) -> Result<Sink, Failure> {
    let Some(path) = path else {
        return Ok(Sink { output: stdout()?, path: None, is_file: false, is_new: false });
    };
    check_path("the file of --output", path).map_err(Failure::usage)?;
    let failed = |error| failure(path, &error);
    let (file, is_new) = create_or_open(path).map_err(failed)?;
    let is_file = file.metadata().map_err(failed)?.is_file();
    // Lock the file until the program ends: another program may have found it empty, too.
    if is_file {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Failed(format!(
                    "another program is writing {}: name a new file with --output",
                    path.display()
                )));
            }
            // Not every file system has locks. A new file can do without.
            Err(TryLockError::Error(error)) if !is_new => return Err(failed(error)),
            _ => {}
        }
    }
    // Wait until the name of a new file is on the disk.
    #[cfg(unix)]
    if is_new && let Some(folder) = std::path::absolute(path).map_err(failed)?.parent() {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    // Check after locking: another program may have written it and ended meanwhile.
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(Failure::Failed(format!(
            "{} holds something already, and is left as it is: name a new file with --output",
            path.display()
        )));
    }
    Ok(Sink { output: file, path: Some(path.to_owned()), is_file, is_new })
}

/// Creates a file, or opens one that has no other name. Returns whether it is new. Links may lead to a device, such as
/// a pipe or `/dev/stdout`, but not to a file, which another user may have chosen.
fn create_or_open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return Ok((created?, true)),
    }
    if !fs::symlink_metadata(path)?.is_file() {
        let device = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("it is a link to nothing; name a file that is no link")
            }
            _ => error,
        })?;
        if device.metadata()?.is_file() {
            return Err(io::Error::other("it is a link to a file; name that file itself"));
        }
        return Ok((device, false));
    }
    let file = open_regular(path, &options)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 1 {
        return Err(io::Error::other("the file has other names (hard links); name a new file"));
    }
    Ok((file, false))
}

impl Sink {
    /// Writes as much as fits, and returns how many bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        loop {
            match self.output.write(bytes) {
                Ok(0) => return Err(self.failure(&io::ErrorKind::WriteZero.into())),
                Ok(written) => return Ok(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }

    /// Cuts the last bytes, which are a piece of an id, from a file that nobody else has appended to since.
    pub fn take_back(&mut self, piece: u64) {
        // Ignore an error: why the write failed matters more.
        let _ = self.output.stream_position().and_then(|end| match self.output.metadata()? {
            file if file.is_file() && file.len() == end => {
                self.output.set_len(end - piece)?;
                self.output.seek(SeekFrom::Start(end - piece))
            }
            _ => Ok(end),
        });
    }

    /// Removes the file of a run that got no ids, if this program created it.
    pub fn discard(&self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.is_new) {
            // Ignore an error: why the run failed matters more than an empty file.
            let _ = fs::remove_file(path);
        }
    }

    /// Cuts the file to its whole ids, `bytes` long, and waits until they are on the disk.
    pub fn finish(&self, bytes: u64) -> Result<(), Failure> {
        if !self.is_file {
            return Ok(());
        }
        let kept = self.output.set_len(bytes).and_then(|()| self.output.sync_all());
        kept.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match (&self.path, error.kind()) {
            (Some(path), _) => failure(path, error),
            (None, io::ErrorKind::BrokenPipe) => Failure::ClosedPipe,
            (None, _) => Failure::Failed(format!("writing the output: {error}")),
        }
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("writing {}: {error}", path.display()))
}

/// Returns stdout without its buffer.
fn stdout() -> Result<File, Failure> {
    let stdout = stdio::stdout()?;
    #[cfg(unix)]
    let stdout = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned()?;
    #[cfg(windows)]
    let stdout = std::os::windows::io::AsHandle::as_handle(&stdout).try_clone_to_owned()?;
    Ok(stdout.into())
}
