//! Attaching to a shared ring by its descriptors, for processes that were not forked from its owner.

use std::fmt::Display;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::SharedRing;
use crate::error::Error;
use crate::layout::{Bits, Layout, Tick};
use crate::policy::TakePolicy;
use crate::ring::{MAX_CAPACITY_BITS, RingBuffer, RingOptions};
use crate::sync::{Ordering, Owner, RegionHeader, WipeOnForkMemory};
use crate::timestamp::Timestamp;

impl SharedRing {
    /// Returns the descriptors that another process needs to [attach](Self::attach) to the ring: of its memory, and of its
    /// owner's process. Whoever has the first can take uids, repeat them, and end the ring: pass it only to processes that
    /// you trust with the uids.
    pub fn descriptors(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.memory.file()?, self.owner.descriptor()])
    }

    /// Attaches to a ring by its [descriptors](Self::descriptors), received over a Unix socket, for example.
    ///
    /// The take policy is [`TakePolicy::Wait`] unless you [set another one](Self::take_policy).
    ///
    /// # Errors
    ///
    /// [`Error::Attach`] if the first descriptor is not of a ring's memory, or its format has another version, or if the
    /// second is not of a process.
    pub fn attach([memory, owner]: [OwnedFd; 2]) -> Result<Self, Error> {
        let memory = WipeOnForkMemory::attach(memory).map_err(refused)?;
        let header = memory.header().ok_or_else(|| refused("it has no header"))?;
        // Relaxed: whoever passes the descriptors synchronizes. Each word is read once, so a peer
        // that changes it later has no effect here.
        let [run_bits, spaced, threshold, worker_id, mark] =
            [&header.run_bits, &header.spaced, &header.threshold, &header.worker_id, &header.mark]
                .map(|word| word.load(Ordering::Relaxed));
        let slots = memory.slots().len() as u64;
        let capacity_bits = run_bits.saturating_add(slots.ilog2().into());
        if capacity_bits > MAX_CAPACITY_BITS.into()
            || !(1..slots).contains(&threshold)
            || spaced > 1
        {
            return Err(refused("its header does not describe a ring"));
        }
        let layout = layout(header).ok_or_else(|| refused("its header has no layout"))?;
        layout.check_worker_id(worker_id).map_err(refused)?;
        let mark = u32::try_from(mark).map_err(refused)?;
        let options = RingOptions::new(capacity_bits as u32).run_bits(run_bits as u32);
        let options = if spaced == 1 { options.spaced() } else { options };
        let ring = RingBuffer::for_takers(memory, options, threshold);
        let owner = Owner::by_descriptor(mark, owner)
            .ok_or_else(|| refused("the second descriptor is not of a process"))?;
        Ok(Self::new(ring, layout, worker_id, TakePolicy::default(), owner))
    }
}

fn layout(header: &RegionHeader) -> Option<Layout> {
    let words = [&header.time_bits, &header.worker_bits, &header.sequence_bits];
    let [time, worker, sequence] =
        words.map(|word| u8::try_from(word.load(Ordering::Relaxed)).unwrap_or(u8::MAX));
    let tick = match header.tick.load(Ordering::Relaxed) {
        1_000 => Tick::Second,
        1 => Tick::Millisecond,
        _ => return None,
    };
    let epoch = Timestamp::from_millis(header.epoch.load(Ordering::Relaxed).cast_signed());
    Layout::new(Bits { time, worker, sequence }, tick, epoch).ok()
}

fn refused(problem: impl Display) -> Error {
    Error::Attach { problem: problem.to_string() }
}
