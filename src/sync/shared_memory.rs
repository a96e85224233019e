//! Memory that processes share: a memory file that none of them can truncate or grow.
// Files and mappings that std does not know.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// A mapping of a memory file. A forked child has it too.
#[derive(Debug)]
pub(super) struct SharedMapping {
    memory: NonNull<c_void>,
    bytes: usize,
}

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
    let (raw, seals) =
        (file.as_raw_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL);
    // SAFETY: these calls are about our own file.
    unsafe {
        checked(libc::ftruncate(raw, length))?;
        // If there is not enough memory, this is an error, where a later touch would end the process (SIGBUS).
        checked(libc::fallocate(raw, 0, 0, length))?;
        checked(libc::fcntl(raw, libc::F_ADD_SEALS, seals))?;
    }
    Ok(file)
}

impl SharedMapping {
    /// Zeroed memory.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Self::map(&new_file(bytes)?, bytes)
    }

    fn map(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let raw = file.as_raw_fd();
        // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, raw, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, bytes })
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
    use std::fs::File;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are no memory files")]
    fn nobody_changes_the_length() {
        let file = new_file(8_192).expect("memory");
        let mapping = SharedMapping::map(&file, 8_192).expect("memory");
        let file = File::from(file);
        for length in [0, 4_096, 12_288] {
            let error = file.set_len(length).expect_err("sealed");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{length}");
        }
        drop(file);
        // SAFETY: the mapping is that long, and stays when its file is closed.
        assert_eq!(unsafe { mapping.memory::<[u8; 8_192]>().as_ref() }, &[0; 8_192]);
    }
}
