//! Files and folders in places where others may have put something.

use std::env;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use uidring::Error;

use crate::TableError;

/// Returns the folder `uidring` in the user's data directory.
///
/// # Errors
///
/// [`TableError::DataDirectory`] if there is none, or its path is relative.
pub fn data_folder() -> Result<PathBuf, Error> {
    // The specification ignores a relative path. Whoever sets one means something else, so it is an error here.
    let named = env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let named = named.filter(|folder| cfg!(target_os = "linux") && folder.is_relative());
    let named = named.filter(|folder| !folder.as_os_str().is_empty());
    let variable = if named.is_some() { "XDG_DATA_HOME" } else { "HOME" };
    let problem = match named.or_else(dirs::data_dir) {
        Some(folder) if folder.is_absolute() => return Ok(folder.join("uidring")),
        Some(folder) => format!(
            "{variable} is not an absolute path, and so {} would be another file in each folder: correct \
             {variable}, or name the file",
            folder.display()
        ),
        None => "no data directory is known for this user (is HOME set?): name the file".into(),
    };
    Err(TableError::DataDirectory { problem }.into())
}

/// Creates a folder and its parents, for their owner only, if they do not exist.
///
/// # Errors
///
/// Those of the system.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a file, unless its name is a symbolic link or it is not a regular file. Never waits, not even for a FIFO.
///
/// # Errors
///
/// Those of the system. Links and special files are refused.
pub fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let mut options = options.clone();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    let is_link = || std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let refuse = |what: &str| {
        let text = format!("{} is {what}", path.display());
        io::Error::new(ErrorKind::PermissionDenied, text)
    };
    let file = options.open(path).map_err(|error| {
        if is_link() { refuse("a symbolic link, which is not followed") } else { error }
    })?;
    if !file.metadata()?.is_file() {
        return Err(refuse("not a regular file"));
    }
    Ok(file)
}

/// Opens a regular file for reading and writing; creates it with this mode if it does not exist. Returns whether it
/// did, since only then may the caller change the owner.
///
/// # Errors
///
/// As [`open_regular`].
pub fn open_or_create(path: &Path, mode: u32) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut new = options.clone();
    new.create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, mode);
    #[cfg(not(unix))]
    let _ = mode;
    loop {
        // Open first: some systems refuse to create a file that another user owns in a world-writable folder.
        match open_regular(path, &options) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return Ok((opened?, false)),
        }
        match new.open(path) {
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return Ok((created?, true)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_created_once_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (file, is_new) = open_or_create(&path("a"), 0o640).expect("created");
        let mode = file.metadata().expect("there").permissions().mode();
        assert_eq!((is_new, mode & 0o777), (true, 0o640));
        assert!(!open_or_create(&path("a"), 0o600).expect("opened").1);

        symlink(path("a"), path("link")).expect("linked");
        symlink(path("nothing"), path("dangling")).expect("linked");
        fs::create_dir(path("folder")).expect("made");
        for (name, text) in [("link", "symbolic link"), ("dangling", "symbolic link")] {
            let error = open_or_create(&path(name), 0o600).expect_err("refused").to_string();
            assert!(error.contains(text), "{error}");
        }
        assert!(open_or_create(&path("folder"), 0o600).is_err());
        assert!(!path("nothing").exists());
    }
}
