//! Buffers that a thread's connections share. A connection that waits for its client holds none.

use std::cell::RefCell;
use std::mem;

/// The greatest size of a read, in bytes.
pub const CHUNK: usize = 64 * 1024;

/// A pipeline that fills a chunk has answers of about this size. Larger buffers are not kept.
const KEPT: usize = 16 * CHUNK;

/// Buffers for one read and its answers. Dropping them returns them to the thread.
pub struct Scratch {
    /// What was read. Its length is `CHUNK`.
    pub input: Vec<u8>,
    /// What to write.
    pub output: Vec<u8>,
}

thread_local! {
    static SPARE: RefCell<Vec<[Vec<u8>; 2]>> = const { RefCell::new(Vec::new()) };
}

/// Takes the thread's buffers, or makes new ones if another connection uses them.
pub fn take() -> Scratch {
    let spare = SPARE.with_borrow_mut(Vec::pop);
    let [input, output] = spare.unwrap_or_else(|| [vec![0; CHUNK], Vec::new()]);
    Scratch { input, output }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut buffers = [mem::take(&mut self.input), mem::take(&mut self.output)];
        buffers[1].clear();
        buffers[1].shrink_to(KEPT);
        // The thread may be ending, and its buffers gone.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            // Two pairs: one for a connection that waits for a segment, say, and one for the others.
            if spare.len() < 2 {
                spare.push(buffers);
            }
        });
    }
}
