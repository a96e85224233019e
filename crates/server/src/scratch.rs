//! Buffers that connections of a thread share: a connection that waits for its client holds none.

use std::cell::RefCell;
use std::mem;

/// What one read takes in at most.
pub const CHUNK: usize = 64 * 1024;

/// A pipeline that fills a chunk has answers of about as many bytes; a greater buffer is not kept.
const KEPT: usize = 16 * CHUNK;

/// Buffers for one read and its answers; they go back to the thread's when dropped.
#[derive(Default)]
pub struct Scratch {
    /// What is read, `CHUNK` bytes long.
    pub input: Vec<u8>,
    /// What is to be written.
    pub output: Vec<u8>,
}

thread_local! {
    static SPARE: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

/// Takes the thread's buffers, or makes some while another connection uses them.
pub fn take() -> Scratch {
    SPARE
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| Scratch { input: vec![0; CHUNK], output: Vec::new() })
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.input.is_empty() {
            return;
        }
        let mut this = mem::take(self);
        this.output.clear();
        this.output.shrink_to(KEPT);
        SPARE.with_borrow_mut(|spare| {
            // Two: one that waits for a segment, say, and one for the others.
            if spare.len() < 2 {
                spare.push(this);
            } else {
                mem::take(&mut this.input);
            }
        });
    }
}
