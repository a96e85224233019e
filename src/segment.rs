//! Segments: numbers out of ranges that a table reserves, many tags in one generator.
//!
//! # A take
//!
//! The takers of a tag share a *view* of its current segment and two *cursors*, one for each of two
//! *lanes*. A cursor counts *tickets*. Each take adds 1 to it, and nothing sets it back, so that a lane
//! gives each ticket once. A segment is a stretch of one lane's tickets, `first..stop`, and the number
//! that is added to a ticket to make its id. The segments of a tag use the lanes alternately.
//!
//! 1. Look: read the view's three words, `open`, `shift` and `stop`, and `open` once more. If it has not
//!    changed, all of them belong to one segment. `open` names the lane, and the *mark*: the ticket up to
//!    which a take needs nothing else.
//! 2. Draw: `cursor.fetch_add(1)`. A ticket below the mark is an id.
//! 3. A ticket from the mark on is settled under the chain's lock. The first one from the mark on widens
//!    the view to the end of the segment, and has the next segment loaded. The first one from the end on
//!    shuts the view (`open = 0`, so that nobody draws), and opens it for the next segment, on the other
//!    lane.
//!
//! # Why no ticket becomes two ids, and no two tickets become one
//!
//! - A ticket belongs to one segment of its lane. A segment begins where the lane's cursor stands when,
//!   under the lock, the segment becomes the current one. The segment before it on that lane has ended by
//!   then: its cursor had passed its `stop`, or was moved there when the segment was discarded.
//! - A taker that sees a segment open (Acquire) sees the cursor at its `first` or above, because the
//!   opener read it so before its Release. So it draws a ticket from `first` on. Below the mark the ticket
//!   is the segment's. So a ticket gets its id from the one segment that it belongs to.
//! - Between `first` and `stop` ids are consecutive, and each segment's range is above the ranges before
//!   it: any other range is refused. So two tickets have two ids, and the later one, on the same lane or
//!   the other, has the greater id.
//! - The view is read whole. Its writer shuts it, passes a Release fence, and writes `shift` and `stop`
//!   before it opens it again. A taker that reads a new value of one of these (Acquire) finds `open`
//!   changed at the second look. It cannot have the same value again, because the marks of a lane only
//!   grow.
//! - Tickets drawn at `stop` or above are no ids: they are below the `first` of the lane's next segment.
//!   There are as many of them as takes that ran into the end, and additions do not wrap a cursor of 64
//!   bits.
//! - A taker may stop between look and draw while the others use up its segment. It then draws such a
//!   ticket, because its lane is not in use for the time of a whole segment. If the others have used up
//!   that one, too, its ticket is one of a later segment of its lane, and nobody else's. It gets the id
//!   under the lock, where the last eight segments are remembered. Only a taker that stops a second
//!   time, before it gets there, for that many segments, finds its own forgotten. The id, if it was one,
//!   is given to nobody, and counted ([`SegmentStats::lapped`]).
//!
//! `fill` claims many tickets with one compare-and-swap that does not go beyond the mark.
//!
//! # Orderings, each with its partner
//!
//! | where | ordering | partner |
//! |---|---|---|
//! | `open` = a mark | Release | the first load of `open` in a look, Acquire: a taker that sees it sees the cursor at `first` |
//! | fence between `open` = 0 and `shift`, `stop` | Release | their loads in a look, Acquire: a taker that sees new values sees `open` changed |
//! | second load of `open` | Relaxed | ordered after the loads before it by their Acquire |
//! | `cursor.fetch_add`, compare-and-swap | Relaxed | needs only the order of the cursor's own values |
//! | `asked` of a tag | AcqRel, all of them swaps | each other: either the loader sees what a taker changed in the chain, or the taker finds `asked` unset |
//! | eventcounts | SeqCst fences on both sides | see `sync::EventCount` |
//!
//! Everything else is under the lock of the chain or of the row.
//!
//! # Loads
//!
//! One thread loads for all tags. A taker that passes the mark, or finds nothing, puts its tag into the
//! load queue, unless it is there already, and wakes the thread if it sleeps. No other take makes a
//! system call or takes a lock. The thread has a tag once at a time, so that at most one load of it is
//! under way. A load that fails is tried again after a pause that doubles. Meanwhile takers wait, or get
//! the error with its cause, as their policy says.
//!
//! # Forks
//!
//! The view has memory that forks wipe (`sync::ForkToken`), which each look reads: a child does not draw, and
//! gets [`SegmentError::Forked`]. The clock is read with no lock held, after a segment has ended. If it
//! forks, the child does not get the id that was drawn before. The locks check for a fork themselves.
//!
//! # Memory
//!
//! A tag takes 1.2 KiB, and 1.5 KiB once it has used up a few segments, whatever their length: measured
//! with 10,000 tags, the allocator's overhead and the names included. The view and the cursors are 256
//! bytes of that, the eight segments that are remembered up to 256.

mod builder;
mod chain;
mod error;
pub(crate) mod generator;
mod loader;
mod memory;
mod names;
mod settings;
mod shared;
mod stats;
mod step;
mod store;
mod tag;
mod ticket_view;

pub use self::builder::SegmentBuilder;
pub use self::error::SegmentError;
pub use self::generator::SegmentHandle;
pub use self::memory::MemorySegments;
pub use self::stats::SegmentStats;
pub use self::store::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag, TagNumber,
};

// For tests and models, outside semantic versioning.
#[doc(hidden)]
pub use self::chain::{ChainStats, PushError, SegmentChain};
