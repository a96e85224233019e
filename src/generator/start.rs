//! Where a generator starts, and the checks that all of them make before.

use super::life::SHORT_LIFE;
use crate::clock::Clock;
use crate::error::Error;
use crate::layout::Layout;
use crate::uid::Uid;

/// The place of a uid among those of its worker: tick and sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) tick: u64,
    pub(super) sequence: u64,
}

/// Checks what is to be one worker's generator, and says where it starts: at the present tick, or
/// above the uid that it is to go on after if that is later.
pub(super) fn start(
    layout: &Layout,
    worker_id: Option<u64>,
    after: Option<Uid>,
    clock: &dyn Clock,
) -> Result<(u64, Position), Error> {
    let worker_id = worker_id.ok_or(Error::NoWorkerId)?;
    layout.check_worker_id(worker_id)?;
    let now = clock.now();
    let present = Position { tick: layout.tick_at(now)?, sequence: 0 };
    let left = layout.remaining_life(now);
    if left < SHORT_LIFE {
        let last_day = layout.last_instant().date();
        tracing::warn!(
            "the layout ends on {last_day}, in {} days: plan a layout with a later epoch or more \
             time bits",
            left.as_secs() / 86_400
        );
    }
    let Some(uid) = after else { return Ok((worker_id, present)) };
    let last = layout.decode(uid)?;
    if last.worker_id != worker_id {
        return Err(Error::ForeignStart { uid: uid.get(), found: last.worker_id, worker_id });
    }
    let next = if last.sequence < layout.max_sequence() {
        Position { tick: last.tick, sequence: last.sequence + 1 }
    } else {
        Position { tick: last.tick + 1, sequence: 0 }
    };
    if next.tick > layout.max_tick() {
        return Err(Error::NothingAfter { uid: uid.get(), ended: layout.last_instant() });
    }
    Ok((worker_id, present.max(next)))
}
