//! Memory that processes share: a memory file that none of them can truncate or grow.
// Files and mappings that std does not know.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// A mapping of a memory file. A forked child has both, too.
#[derive(Debug)]
pub(super) struct SharedMapping {
    memory: NonNull<c_void>,
    bytes: usize,
    file: OwnedFd,
}

/// No process can undo these, so no access to the mapping ends in a SIGBUS.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

// SAFETY: whichever thread drops it may unmap the memory; there is nothing else to do with it.
unsafe impl Send for SharedMapping {}
// SAFETY: a shared `SharedMapping` can do nothing but say where it is.
unsafe impl Sync for SharedMapping {}

/// Makes a file of zeros. Nobody can change its length.
fn new_file(bytes: usize) -> io::Result<OwnedFd> {
    let length = i64::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string that ends in a zero.
    let file = checked(unsafe { libc::memfd_create(c"uidring".as_ptr(), flags) })?;
    // SAFETY: the descriptor is new, and nobody else's.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let raw = file.as_raw_fd();
    // SAFETY: these calls are about our own file.
    unsafe {
        checked(libc::ftruncate(raw, length))?;
        // If there is not enough memory, this is an error, where a later touch would end the process (SIGBUS).
        checked(libc::fallocate(raw, 0, 0, length))?;
        checked(libc::fcntl(raw, libc::F_ADD_SEALS, SEALS))?;
    }
    Ok(file)
}

impl SharedMapping {
    /// Zeroed memory.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Self::map(new_file(bytes)?, bytes)
    }

    /// The memory of a file that another process made, if nobody can change its length.
    pub(super) fn attach(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: the call returns a number.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        // An error is -1, in which all bits are set.
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
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, bytes, file })
    }

    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where it begins, at the beginning of a page.
    pub(super) fn memory<T>(&self) -> NonNull<T> {
        self.memory.cast()
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and every reference to it borrowed from `self`.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
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
        // SAFETY: the mapping is that long, and stays when its file is closed.
        assert_eq!(unsafe { mapping.memory::<[u8; 8_192]>().as_ref() }, &[0; 8_192]);
    }
}
