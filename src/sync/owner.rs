//! Tells whether the process that owns a shared ring is alive: the kernel marks a word when a thread of that process
//! ends.
//!
//! The thread does nothing else. Its robust list has one entry, for the word. No other process maps the list, so none
//! can make the kernel follow wrong pointers. The list is in a shared mapping nevertheless: after an out-of-memory
//! kill, private memory may be gone before the kernel reads the list.
// System calls for which std has no API.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::shared_memory::last_error;
use super::{ForkToken, RingWords, WipeOnForkMemory, log};

/// Tells the kernel to wake a futex waiter when it marks the word.
const WAITERS: u32 = 0x8000_0000;

/// What takers compare the word with if the kernel cannot mark it. The word is 0 then, so they always ask the kernel.
const UNMARKED: u32 = WAITERS;

/// The kernel's mark: the thread has ended.
const OWNER_DIED: u32 = 0x4000_0000;

/// The thread that holds the mark.
#[derive(Debug)]
pub(crate) struct MarkThread {
    fork_token: ForkToken,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The owner, as takers know it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The word's value while the owner lives.
    pub(crate) mark: u32,
    /// A descriptor that is readable once the owner has ended.
    process: Arc<OwnedFd>,
}

/// What the kernel reads when the thread ends.
#[repr(C)]
struct RobustList {
    /// The first entry.
    first: *const c_void,
    /// From an entry to its word, in bytes.
    offset: isize,
    pending: *const c_void,
    /// The only entry. It points back to the list, which ends it.
    entry: *const c_void,
}

impl MarkThread {
    /// Starts the thread, and has it hold the mark of this memory.
    pub(crate) fn start(memory: &WipeOnForkMemory<RingWords>) -> io::Result<(Self, Owner)> {
        let process = this_process()?;
        let (ends, memory) = (Arc::new(AtomicBool::new(false)), memory.clone());
        let (theirs, (send, receive)) = (Arc::clone(&ends), mpsc::channel());
        let thread = thread::Builder::new().name("uidring-mark".into()).spawn(move || {
            let held = List::new().and_then(|list| Ok((list.hold(&memory)?, list)));
            let list = match held {
                Ok((mark, list)) => {
                    let _ = send.send(Ok(mark));
                    list
                }
                Err(error) => return drop(send.send(Err(error))),
            };
            // Acquire: pairs with the Release in `drop`, which publishes nothing else.
            while !theirs.load(Ordering::Acquire) {
                thread::park();
            }
            list.unregister();
        });
        let thread = thread
            .map_err(|error| io::Error::new(error.kind(), format!("it needs a thread: {error}")))?;
        let mark = receive.recv().map_err(io::Error::other)?.unwrap_or_else(|error| {
            log!(warn, %error, "the kernel cannot mark a shared ring, so each take makes a system call");
            UNMARKED
        });
        let owner = Owner { mark, process: Arc::new(process) };
        Ok((Self { fork_token: ForkToken::current(), ends, thread: Some(thread) }, owner))
    }
}

impl Drop for MarkThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.fork_token.is_forked_child() {
            return mem::forget(thread);
        }
        self.ends.store(true, Ordering::Release);
        thread.thread().unpark();
        let _ = thread.join();
    }
}

impl Owner {
    /// Makes an `Owner` from a descriptor of its process (see pidfd_open(2)).
    ///
    /// Returns `None` for a descriptor of something else.
    pub(crate) fn by_descriptor(mark: u32, process: OwnedFd) -> Option<Self> {
        let owner = Self { mark, process: Arc::new(process) };
        owner.has_descriptor_of_process().then_some(owner)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Whether the owner has ended, by the mark that was found or else by a system call.
    pub(crate) fn has_ended(&self, mark: u32) -> bool {
        mark & OWNER_DIED != 0 || self.is_process_over()
    }

    /// Whether the owner's process is over. An exec does not end it, and if there is much memory to free, this turns
    /// true later than the mark is set.
    fn is_process_over(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call writes only to the one structure.
        let is_readable =
            unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 };
        // A child that closes all descriptors, as daemons do, may have another file by this number.
        is_readable && self.has_descriptor_of_process()
    }

    fn has_descriptor_of_process(&self) -> bool {
        let (file, info) = (self.process.as_raw_fd(), ptr::null::<c_void>());
        // SAFETY: signal 0 is none, and needs no information.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, file, 0, info, 0) };
        // Another error is about the process: it is over, or another user's.
        sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EBADF)
    }
}

/// The length that the kernel expects: that of the list's head, without the entry.
const LENGTH: usize = 3 * size_of::<usize>();

/// The mapping of a thread's robust list.
struct List(ptr::NonNull<RobustList>);

impl List {
    fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), size_of::<RobustList>(), protection, flags, -1, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        ptr::NonNull::new(memory.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Makes this the robust list of the current thread, with the memory's mark as its entry. Returns the mark.
    fn hold(&self, memory: &WipeOnForkMemory<RingWords>) -> io::Result<u32> {
        let word = &memory.hot().mark;
        let list = self.0.as_ptr();
        // SAFETY: the mapping is ours, and long enough; the kernel reads it only when this thread ends.
        // The mark's memory stays mapped until then, because this thread holds a clone of it.
        unsafe {
            let entry = (&raw const (*list).entry).cast::<c_void>();
            let offset = word.as_ptr().addr().wrapping_sub(entry.addr()).cast_signed();
            list.write(RobustList {
                first: entry,
                offset,
                pending: ptr::null(),
                entry: list.cast(),
            });
            if libc::syscall(libc::SYS_set_robust_list, list, LENGTH) != 0 {
                return Err(last_error("set_robust_list"));
            }
        }
        // SAFETY: the call only returns a number.
        let thread = unsafe { libc::gettid() }.cast_unsigned();
        let mark = thread | WAITERS;
        word.store(mark, Ordering::Release);
        Ok(mark)
    }

    /// Gives up the list, so that the thread ends without marking the word. Call in the thread that called `hold`, once
    /// the ring is closed.
    fn unregister(self) {
        let list = ptr::null::<RobustList>();
        // SAFETY: without a list, the kernel no longer reads the mapping, and nobody else does.
        unsafe {
            if libc::syscall(libc::SYS_set_robust_list, list, LENGTH) == 0 {
                libc::munmap(self.0.as_ptr().cast(), size_of::<RobustList>());
            }
        }
    }
}

/// Opens a descriptor of this process.
fn this_process() -> io::Result<OwnedFd> {
    // SAFETY: the call returns a new descriptor, which nobody else owns. An exec closes it.
    unsafe {
        let file = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        match i32::try_from(file) {
            Ok(file) if file >= 0 => Ok(OwnedFd::from_raw_fd(file)),
            _ => Err(last_error("pidfd_open")),
        }
    }
}
