//! Segments: ids from ranges that a table reserves, for many tags in one generator.
//!
//! # A take
//!
//! The takers of a tag share a *view* of its current segment, and two *cursors*, one per *lane*. A cursor counts
//! *tickets*. Each take adds 1 to it, and it never goes back, so a lane gives each ticket once. A segment is a range of
//! one lane's tickets, `first..stop`, and the number that turns a ticket into an id by addition. The segments of a tag
//! use the lanes alternately.
//!
//! 1. Look: read the view's words `open`, `shift` and `stop`, and then `open` again. If it has not changed, they all
//!    belong to one segment. `open` holds the lane and the *mark*: a take below this ticket needs nothing else.
//! 2. Draw: `cursor.fetch_add(1)`. A ticket below the mark is an id.
//! 3. Tickets from the mark on are settled under the chain's lock. The first such ticket widens the view to the end of
//!    the segment, and has the next segment loaded. The first one from the end on shuts the view (`open = 0`, so that
//!    nobody draws), and opens it for the next segment, on the other lane.
//!
//! # Why no ticket becomes two ids, and no two tickets become one
//!
//! - A ticket belongs to one segment of its lane. When a segment becomes current, under the lock, it begins at the
//!   lane's cursor. The lane's previous segment has ended by then: the cursor has passed its `stop`, or was moved there
//!   when the segment was discarded.
//! - A taker that sees a segment open (Acquire) sees the cursor at its `first` or above, because the opener read it
//!   there before its Release. So it draws a ticket from `first` on, which below the mark is the segment's. So each
//!   ticket gets its id from the one segment that it belongs to.
//! - Ids are consecutive between `first` and `stop`, and each segment's range is above all earlier ranges; any other
//!   range is refused. So two tickets have two ids, and the later one has the greater id, on either lane.
//! - The view is read whole. Its writer shuts it, passes a Release fence, and writes `shift` and `stop` before it opens
//!   it again. A taker that reads a new value of these (Acquire) finds `open` changed at the second look. `open` never
//!   returns to an old value, because the marks of a lane only grow.
//! - Tickets drawn at `stop` or above are no ids: they are below the `first` of the lane's next segment. There are as
//!   many as takes that ran into the end; additions do not wrap a 64-bit cursor.
//! - A taker may stop between look and draw while others use up its segment. It then draws such a ticket, because its
//!   lane is idle for a whole segment. If that segment is used up, too, the ticket belongs to a later segment of its
//!   lane, and to nobody else. It gets the id under the lock, where the last eight segments are remembered. If the
//!   taker stops again before that, for that many segments, its own is forgotten. Then the id, if it was one, is lost
//!   and counted ([`SegmentStats::lapped`]).
//!
//! `fill` claims many tickets with one compare-and-swap that stops at the mark.
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
//! Everything else is under the lock of the chain or the row.
//!
//! # Loads
//!
//! One thread loads for all tags. A taker that passes the mark, or finds nothing, queues its tag if it is not queued
//! yet, and wakes the thread if it sleeps. No other take makes a system call or locks anything. A tag is queued or with
//! the thread once, so it has at most one load at a time. A failed load is retried after a pause that doubles.
//! Meanwhile takers wait, or get the error with its cause, as their policy says.
//!
//! # Forks
//!
//! Each look checks a fork token (`sync::ForkToken`), so a child does not draw, and gets [`SegmentError::Forked`].
//! After a segment has ended, the clock is read with no lock held. If it forks, the child does not get the id drawn
//! before. The locks check for forks themselves.
//!
//! # Memory
//!
//! A tag uses 1.2 KiB, or 1.5 KiB after a few segments, whatever their length: measured with 10,000 tags, names and the
//! allocator's overhead included. View and cursors are 256 bytes of it, the eight remembered segments up to 256.

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

// For tests and models. Exempt from semantic versioning.
#[doc(hidden)]
pub use self::chain::{ChainStats, PushError, SegmentChain};
