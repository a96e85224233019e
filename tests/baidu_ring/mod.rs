//! The steps of Baidu's `RingBuffer`, in code of our own, to show its fault.

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

const CAN_PUT: u64 = 0;
const CAN_TAKE: u64 = 1;

/// One flag and one uid a slot. The cursor is the last uid taken, the tail the last one put.
pub struct RingBuffer {
    slots: Vec<AtomicU64>,
    flags: Vec<AtomicU64>,
    tail: AtomicI64,
    cursor: AtomicI64,
    put: Mutex<()>,
}

impl RingBuffer {
    pub fn new(size: usize) -> Self {
        Self {
            slots: (0..size).map(|_| AtomicU64::new(0)).collect(),
            flags: (0..size).map(|_| AtomicU64::new(CAN_PUT)).collect(),
            tail: AtomicI64::new(-1),
            cursor: AtomicI64::new(-1),
            put: Mutex::new(()),
        }
    }

    pub fn put(&self, uid: u64) -> bool {
        let _guard = self.put.lock().expect("not poisoned");
        let tail = self.tail.load(SeqCst);
        let cursor = self.cursor.load(SeqCst);
        if tail - cursor.max(0) == self.slots.len() as i64 - 1 {
            return false;
        }
        let next = (tail + 1) as usize % self.slots.len();
        if self.flags[next].load(SeqCst) != CAN_PUT {
            return false;
        }
        self.slots[next].store(uid, SeqCst);
        self.flags[next].store(CAN_TAKE, SeqCst);
        self.tail.fetch_add(1, SeqCst);
        true
    }

    /// Reads the cursor, then moves it on unless it has reached the tail. Two readings that are equal mean "empty". If
    /// two takers read the old cursor, the second then finds it at the tail, moves nothing, sees two different
    /// readings, and takes the same uid.
    pub fn take(&self) -> Option<u64> {
        let current = self.cursor.load(SeqCst);
        let next = loop {
            let old = self.cursor.load(SeqCst);
            let new = if old == self.tail.load(SeqCst) { old } else { old + 1 };
            if self.cursor.compare_exchange(old, new, SeqCst, SeqCst).is_ok() {
                break new;
            }
        };
        if next == current {
            return None;
        }
        let slot = next as usize % self.slots.len();
        if self.flags[slot].load(SeqCst) != CAN_TAKE {
            return None;
        }
        let uid = self.slots[slot].load(SeqCst);
        self.flags[slot].store(CAN_PUT, SeqCst);
        Some(uid)
    }
}
