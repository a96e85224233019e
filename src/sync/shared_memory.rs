//! Memory that processes share: a memory file that none of them can truncate or grow.
// Memory files and mappings, for which std has no API.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// A mapping of a memory file. A forked child inherits both.
#[derive(Debug)]
pub(super) struct SharedMapping {
    memory: NonNull<c_void>,
    bytes: usize,
    file: OwnedFd,
}

/// These fix the file's length. No process can remove them, so no access to the mapping lies beyond the file's
/// end, which would raise SIGBUS.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

// SAFETY: a mapping is not tied to a thread, so any thread may unmap it.
unsafe impl Send for SharedMapping {}
// SAFETY: a `&SharedMapping` only gives the mapping's address, length and file.
unsafe impl Sync for SharedMapping {}

/// Creates a file of zeros whose length nobody can change.
fn new_file(bytes: usize) -> io::Result<OwnedFd> {
    let length = i64::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"uidring".as_ptr(), flags) };
    let file = checked("memfd_create", file)?;
    // SAFETY: the descriptor is new, and nobody else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let raw = file.as_raw_fd();
    // SAFETY: the calls take only numbers, but for the limit, which is ours to fill in. The file is our own.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        checked("getrlimit", libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit))?;
        if limit.rlim_cur < length.cast_unsigned() {
            // Beyond the limit, ftruncate would end the process (SIGXFSZ).
            let limit = limit.rlim_cur;
            return Err(io::Error::other(format!(
                "it needs a memory file of {length} bytes, and RLIMIT_FSIZE allows {limit}; raise it (ulimit -f)"
            )));
        }
        checked("ftruncate", libc::ftruncate(raw, length))?;
        // Reserve the memory now. If it is short, this fails, but a later access would end the process (SIGBUS).
        checked("fallocate", libc::fallocate(raw, 0, 0, length))?;
        checked("fcntl", libc::fcntl(raw, libc::F_ADD_SEALS, SEALS))?;
    }
    Ok(file)
}

impl SharedMapping {
    /// Creates a file of zeros and maps it.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Self::map(new_file(bytes)?, bytes)
    }

    /// Maps a file that another process made. Fails unless its length is fixed.
    pub(super) fn attach(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: the call takes and returns only numbers.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        // An error is -1, whose bits include those of all seals.
        if seals < 0 || seals & SEALS != SEALS {
            return Err(io::Error::other("the descriptor is not of a sealed memory file"));
        }
        let file = File::from(file);
        let bytes = file.metadata()?.len().try_into().map_err(|_| io::ErrorKind::OutOfMemory)?;
        Self::map(file.into(), bytes)
    }

    fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let raw = file.as_raw_fd();
        // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, raw, 0) };
        if memory == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        let memory = NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, bytes, file })
    }

    /// Returns its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns its start, which is aligned to a page.
    pub(super) fn memory<T>(&self) -> NonNull<T> {
        self.memory.cast()
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping. Every reference into it borrows `self` or its owner, so none is
        // left.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}

fn checked(call: &str, result: i32) -> io::Result<i32> {
    if result < 0 { Err(last_error(call)) } else { Ok(result) }
}

/// Returns the error of the system call that has just failed, with its name.
pub(super) fn last_error(call: &str) -> io::Error {
    let error = io::Error::last_os_error();
    io::Error::new(error.kind(), format!("{call}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are no memory files")]
    fn nobody_changes_the_length() {
        let file = new_file(8_192).expect("memory");
        let mapping = SharedMapping::map(file.try_clone().expect("a descriptor"), 8_192);
        let (mapping, file) = (mapping.expect("memory"), File::from(file));
        for length in [0, 4_096, 12_288] {
            let error = file.set_len(length).expect_err("sealed");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{length}");
        }
        drop(file);
        // SAFETY: the mapping is that long, and closing its file does not unmap it.
        assert_eq!(unsafe { mapping.memory::<[u8; 8_192]>().as_ref() }, &[0; 8_192]);
    }
}
