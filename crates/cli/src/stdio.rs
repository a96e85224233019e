//! The program's stdout, which may be closed from the start.

// For a function that runs before std's own, and a system call that std does not offer.
#![allow(unsafe_code)]

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Whether stdout was closed when the program was started; `false` if unknown.
///
/// std opens /dev/null in its place before `main`, so that everything would be lost without an error.
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns stdout, or an error if it is closed.
pub fn stdout() -> Result<StdoutLock<'static>, Failure> {
    // Relaxed: stored before there were threads.
    if STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Failure::Failed("stdout is closed: there is nowhere to print to".into()));
    }
    Ok(io::stdout().lock())
}

pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = stdout()?;
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}

#[cfg(unix)]
#[used]
// SAFETY: the loader calls the functions of this section one after another before `main`. This one needs nothing that
// std sets up later.
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static LOOK: extern "C" fn() = look;

#[cfg(unix)]
extern "C" fn look() {
    // SAFETY: only queries the descriptor, which may be closed.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
    }
}
