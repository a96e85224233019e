//! Segments: numbers out of ranges that a table reserves, many tags in one generator.
//!
//! # A take
//!
//! The takers of a tag share a *view* of its current segment and two *cursors*, the lanes. A cursor
//! counts *tickets*; it is added to, once for each take, and never set back, so that a lane gives each
//! ticket once. A segment is a stretch of one lane's tickets, `first..stop`, and what is to be added
//! to make ids of them. The segments of a tag use the lanes in turn.
//!
//! 1. Look: read the view's three words, `open`, `shift` and `stop`, and `open` once more. If it is
//!    the same, all of them are one segment's. `open` says which lane, and up to which ticket, the
//!    *mark*, a take needs nothing more.
//! 2. Draw: `cursor.fetch_add(1)`. A ticket below the mark is an id.
//! 3. A ticket from the mark on takes a closer look, under the chain's lock. The first one behind the
//!    mark widens the view to the end and has the next segment loaded; the first one behind the end
//!    shuts the view (`open = 0`: who comes now does not draw) and opens it for the next segment,
//!    on the other lane.
//!
//! # Why no ticket becomes two ids, and no two tickets become one
//!
//! - A ticket belongs to one segment of its lane. A segment begins at the lane's cursor as it stands
//!   when the segment becomes the current one, under the lock; and the one before it on that lane
//!   had ended by then: its cursor had passed its `stop`, or was moved there when it was thrown
//!   away.
//! - A taker that sees a segment open (Acquire) sees the cursor at its `first` or beyond (the
//!   segment's opener read it so before its Release), and so draws a ticket from there on. Below
//!   the mark it is the segment's. So a ticket gets its id from the one segment that it belongs to.
//! - Between `first` and `stop` ids are consecutive, and segments hold ranges above each other: a
//!   range that is not above all before it is refused. So two tickets have two ids, and the later
//!   one, on the same lane or another, the greater.
//! - The view is whole: its writer shuts it, passes a Release fence, and writes `shift` and `stop`
//!   before it opens it again. Who reads one of these anew (Acquire) finds `open` changed at the
//!   second look; it cannot be the same again, for marks of a lane only grow.
//! - Tickets drawn behind `stop` are worth nothing: they lie below the `first` of the lane's next
//!   segment. There are as many of them as takes that ran into the end, and a cursor of 64 bits does
//!   not come around by additions.
//! - A taker that stops between look and draw, while the others use up its segment, draws such a
//!   worthless ticket: its lane is not in use for the time of a whole segment. Should they have used
//!   up that as well, its ticket is one of a later segment of its lane, and nobody else's. It gets
//!   the id under the lock, where the last eight segments are remembered. Only a taker that stops a
//!   second time, before it gets there, for so many segments, finds its own forgotten; the id, if it
//!   was one, is given to nobody, and counted ([`SegmentStats::lapped`]).
//!
//! `fill` claims many tickets with a compare-and-swap that does not go beyond the mark.
//!
//! # Orderings, each with its partner
//!
//! | where | ordering | partner |
//! |---|---|---|
//! | `open` = a mark | Release | the first load of `open` in a look, Acquire: who sees it sees the cursor at `first` |
//! | fence between `open` = 0 and `shift`, `stop` | Release | their loads in a look, Acquire: who sees them anew sees `open` changed |
//! | second load of `open` | Relaxed | kept behind the loads before it by their Acquire |
//! | `cursor.fetch_add`, compare-and-swap | Relaxed | need only the order of the cursor's own values |
//! | `asked` of a tag | AcqRel, all of them swaps | each other: the loader sees what a taker changed in the chain before it found itself not needed |
//! | eventcounts | SeqCst fences on both sides | see `sync::Event` |
//!
//! Everything else is under the lock of the chain or of the row.
//!
//! # Loads
//!
//! One thread loads for all tags. A taker that passes the mark, or finds nothing, puts its tag on a
//! list, unless it is there, and wakes the thread if that sleeps; no other take makes a system call
//! or takes a lock. A tag is with the thread once at a time, so that one load of it is under way at
//! the most. One that fails is tried again after a pause that doubles, while takers wait, or get
//! the error with its cause, as their policy says.
//!
//! # Forks
//!
//! The view has the mark of life of wiped memory (`sync::Pages`), which each look reads: a child does
//! not draw, and gets [`SegmentError::Forked`]. The clock is read with no lock held, where a segment ended;
//! if it has forked, the child does not get the id that was drawn before. The locks look for the fork
//! themselves.
//!
//! # Memory
//!
//! A tag takes 1.2 KiB, and 1.5 KiB once it has used up a few segments, however long they are:
//! measured with 10,000 tags, allocator, names and all. 256 bytes of it are the view and the cursors,
//! up to 256 the eight segments that are remembered.

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
pub use self::chain::{ChainStats, PushError, SegmentChain};
pub use self::error::SegmentError;
pub use self::generator::SegmentHandle;
pub use self::memory::MemorySegments;
pub use self::stats::SegmentStats;
pub use self::store::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
