//! How a uid's 64 bits are divided, and what follows from it.

mod text;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::Error;
use crate::timestamp::Timestamp;
use crate::uid::Uid;

/// One unit of the time field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tick {
    /// 1 s, as in Baidu's UidGenerator.
    Second,
    /// 1 ms, as in Twitter's Snowflake and Meituan's Leaf.
    Millisecond,
}

impl Tick {
    /// Returns the length of a tick in milliseconds.
    pub const fn millis(self) -> i64 {
        match self {
            Self::Second => 1_000,
            Self::Millisecond => 1,
        }
    }
}

/// The widths of the three fields. Prints and parses as `28/22/13`.
///
/// Parsing only checks the form; [`Layout::new`] checks the widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    /// Bits of the time field.
    pub time: u8,
    /// Bits of the worker field.
    pub worker: u8,
    /// Bits of the sequence field.
    pub sequence: u8,
}

/// The fields of a uid, for [`Layout::compose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fields {
    /// The time field: ticks since the epoch.
    pub tick: u64,
    /// The worker field.
    pub worker_id: u64,
    /// The sequence field.
    pub sequence: u64,
}

/// The fields of a uid, from [`Layout::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Decoded {
    /// The time field: ticks since the epoch.
    pub tick: u64,
    /// The start of that tick.
    pub timestamp: Timestamp,
    /// The worker field.
    pub worker_id: u64,
    /// The uid's number within its tick and worker, from 0.
    pub sequence: u64,
}

/// The widths of a uid's fields, the tick and the epoch.
///
/// A uid holds, from its most significant bit, a sign bit that is always 0, then `time | worker | sequence`. So uids of
/// later ticks are greater. Every layout has passed the checks of [`new`](Self::new).
///
/// ```
/// use uidring::{Bits, Fields, Layout, Tick};
///
/// let layout = Layout::new(
///     Bits { time: 28, worker: 22, sequence: 13 },
///     Tick::Second,
///     "2026-01-01".parse()?,
/// )?;
/// assert_eq!(layout, Layout::UID_GENERATOR);
///
/// let uid = layout.compose(Fields { tick: 60, worker_id: 7, sequence: 5 })?;
/// let fields = layout.decode(uid)?;
/// assert_eq!(fields.timestamp.to_string(), "2026-01-01T00:01:00Z");
/// assert_eq!((fields.worker_id, fields.sequence), (7, 5));
/// assert!(layout.compose(Fields { tick: 60, worker_id: 1 << 22, sequence: 5 }).is_err(), "never masked");
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    bits: Bits,
    tick: Tick,
    epoch: Timestamp,
}

/// 2026-01-01T00:00:00Z.
const EPOCH_2026: Timestamp = Timestamp::from_millis(1_767_225_600_000);

impl Layout {
    /// UidGenerator's default widths, 28/22/13 in seconds: 8.5 years, 4.2 million starts, 8,192 uids per second and
    /// worker. Its epoch is 2026-01-01. Baidu's epoch, 2016-05-20, ended in November 2024.
    pub const UID_GENERATOR: Self = Self::preset(28, 22, 13, Tick::Second, EPOCH_2026);

    /// The widths of the example in UidGenerator's documentation, 29/21/13 in seconds: 17 years from 2026-01-01, 2.1
    /// million starts, 8,192 uids per second and worker.
    pub const UID_GENERATOR_LONG: Self = Self::preset(29, 21, 13, Tick::Second, EPOCH_2026);

    /// Twitter's Snowflake and Meituan's Leaf, 41/10/12 in milliseconds with Twitter's epoch, 2010-11-04T01:42:54.657Z:
    /// until July 2080, 1,024 workers, 4,096 uids per millisecond and worker.
    pub const SNOWFLAKE: Self =
        Self::preset(41, 10, 12, Tick::Millisecond, Timestamp::from_millis(1_288_834_974_657));

    /// 31/10/12 in seconds: 53 bits, so that JavaScript's numbers hold every uid exactly. 68 years from 2026-01-01,
    /// 1,024 workers, 4,096 uids per second and worker.
    pub const JAVASCRIPT_SAFE: Self = Self::preset(31, 10, 12, Tick::Second, EPOCH_2026);

    const fn preset(time: u8, worker: u8, sequence: u8, tick: Tick, epoch: Timestamp) -> Self {
        let bits = Bits { time, worker, sequence };
        assert!(Self::fits(bits), "a preset's widths must be possible");
        Self { bits, tick, epoch }
    }

    const fn fits(bits: Bits) -> bool {
        let total = bits.time as u32 + bits.worker as u32 + bits.sequence as u32;
        bits.time > 0 && bits.worker > 0 && bits.sequence > 0 && total <= 63
    }

    /// Returns a layout with these widths.
    ///
    /// # Errors
    ///
    /// [`Error::LayoutBits`] if a field has no bits, or all three have more than 63, as the sign bit stays 0. Fewer
    /// than 63 are fine.
    pub const fn new(bits: Bits, tick: Tick, epoch: Timestamp) -> Result<Self, Error> {
        if Self::fits(bits) {
            Ok(Self { bits, tick, epoch })
        } else {
            let Bits { time, worker, sequence } = bits;
            Err(Error::LayoutBits { time, worker, sequence })
        }
    }

    /// [`new`](Self::new) for constants. Impossible widths do not compile.
    ///
    /// # Panics
    ///
    /// If the widths are impossible, outside a constant.
    ///
    /// ```
    /// use uidring::{Bits, Layout, Tick, Timestamp};
    ///
    /// const BITS: Bits = Bits { time: 41, worker: 8, sequence: 14 };
    /// const EPOCH: Timestamp = Timestamp::from_millis(1_767_225_600_000);
    /// const LAYOUT: Layout = Layout::constant(BITS, Tick::Millisecond, EPOCH);
    /// assert_eq!(LAYOUT.to_string(), "41/8/14 in ms since 2026-01-01T00:00:00Z");
    /// ```
    pub const fn constant(bits: Bits, tick: Tick, epoch: Timestamp) -> Self {
        assert!(Self::fits(bits), "each field needs 1 bit or more, and all three at most 63");
        Self { bits, tick, epoch }
    }

    /// Returns the widths of the fields.
    pub const fn bits(&self) -> Bits {
        self.bits
    }

    /// Returns the unit of the time field.
    pub const fn tick(&self) -> Tick {
        self.tick
    }

    /// Returns the start of tick 0.
    pub const fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// Returns the greatest value of the time field.
    pub const fn max_tick(&self) -> u64 {
        (1 << self.bits.time) - 1
    }

    /// Returns the greatest worker id.
    pub const fn max_worker_id(&self) -> u64 {
        (1 << self.bits.worker) - 1
    }

    /// Returns the greatest value of the sequence field.
    pub const fn max_sequence(&self) -> u64 {
        (1 << self.bits.sequence) - 1
    }

    /// Returns the number of worker ids, including 0.
    pub const fn workers(&self) -> u64 {
        1 << self.bits.worker
    }

    /// Returns how many uids a worker has per tick.
    pub const fn uids_per_tick(&self) -> u64 {
        1 << self.bits.sequence
    }

    /// Returns the greatest uid of this layout.
    pub const fn max_uid(&self) -> Uid {
        Uid::from_layout((1 << (self.bits.time + self.bits.worker + self.bits.sequence)) - 1)
    }

    /// Returns the last millisecond of the time field, at most 292 million years from now.
    pub fn last_instant(&self) -> Timestamp {
        let length = i128::from(self.tick.millis()) << self.bits.time;
        saturating_timestamp(i128::from(self.epoch.as_millis()) + length - 1)
    }

    /// Returns how much of the time field is left at a time; zero once it is over.
    pub fn remaining_life(&self, at: Timestamp) -> Duration {
        self.last_instant().saturating_since(at)
    }

    /// Returns the tick of a time.
    ///
    /// # Errors
    ///
    /// [`Error::ClockBeforeEpoch`] or [`Error::LayoutExhausted`] if there is none.
    pub fn tick_at(&self, time: Timestamp) -> Result<u64, Error> {
        self.try_tick_at(time).ok_or_else(|| self.no_tick_at(time))
    }

    /// [`tick_at`](Self::tick_at) for takes, without the reason.
    #[inline]
    pub(crate) fn try_tick_at(&self, time: Timestamp) -> Option<u64> {
        // Saturating: times beyond 292 million years count as the last one within.
        let offset = time.as_millis().saturating_sub(self.epoch.as_millis());
        let offset = u64::try_from(offset).ok()?;
        // Two divisions by constants are faster than one by a variable.
        let tick = match self.tick {
            Tick::Second => offset / 1_000,
            Tick::Millisecond => offset,
        };
        (tick <= self.max_tick()).then_some(tick)
    }

    /// [`tick_at`](Self::tick_at) for times that have a tick. For others, a number that is no tick of the layout.
    #[inline]
    pub(crate) fn tick_unchecked(&self, time: Timestamp) -> u64 {
        // Before the epoch, this is a number far above all ticks.
        let offset = time.as_millis().wrapping_sub(self.epoch.as_millis()).cast_unsigned();
        match self.tick {
            Tick::Second => whole_seconds(offset),
            Tick::Millisecond => offset,
        }
    }

    #[cold]
    fn no_tick_at(&self, time: Timestamp) -> Error {
        if time < self.epoch {
            Error::ClockBeforeEpoch { now: time, epoch: self.epoch }
        } else {
            Error::LayoutExhausted { ended: self.last_instant(), now: time }
        }
    }

    /// Returns the start of a tick, at most 292 million years from now.
    pub fn time_of(&self, tick: u64) -> Timestamp {
        let offset = i128::from(tick) * i128::from(self.tick.millis());
        saturating_timestamp(i128::from(self.epoch.as_millis()) + offset)
    }

    /// Checks a worker id against the worker field.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] if it does not fit.
    pub fn check_worker_id(&self, worker_id: u64) -> Result<(), Error> {
        let max = self.max_worker_id();
        if worker_id <= max { Ok(()) } else { Err(Error::WorkerIdOutOfRange { worker_id, max }) }
    }

    /// Returns the uid with these fields.
    ///
    /// # Errors
    ///
    /// [`Error::FieldOutOfRange`] or [`Error::WorkerIdOutOfRange`] if a value does not fit in its field. Nothing is
    /// truncated.
    pub fn compose(&self, fields: Fields) -> Result<Uid, Error> {
        let Fields { tick, worker_id, sequence } = fields;
        check_field("tick", tick, self.max_tick())?;
        self.check_worker_id(worker_id)?;
        check_field("sequence", sequence, self.max_sequence())?;
        Ok(self.pack(tick, worker_id, sequence))
    }

    /// Returns the fields of a uid.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] if the uid has bits above the fields, as one of a wider layout may.
    pub fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        let Bits { worker, sequence, .. } = self.bits;
        let (uid, max) = (u64::from(uid), u64::from(self.max_uid()));
        if uid > max {
            return Err(Error::UidOutOfLayout { uid, max });
        }
        let tick = uid >> (worker + sequence);
        Ok(Decoded {
            tick,
            timestamp: self.time_of(tick),
            worker_id: (uid >> sequence) & self.max_worker_id(),
            sequence: uid & self.max_sequence(),
        })
    }

    /// Returns the smallest and the greatest uid that a range of time can hold, over all workers: the bounds for a
    /// query by id. Ticks count as a whole. Times outside the layout are left out.
    ///
    /// `None` if no part of the range is within the layout.
    ///
    /// ```
    /// use uidring::Layout;
    ///
    /// let layout = Layout::UID_GENERATOR;
    /// let day = "2026-03-01".parse()?..="2026-03-01T23:59:59.999Z".parse()?;
    /// let uids = layout.uid_range(day).expect("within the layout's life");
    /// assert_eq!(layout.decode(*uids.start())?.timestamp, "2026-03-01".parse()?);
    /// assert_eq!(layout.decode(*uids.end())?.timestamp, "2026-03-01T23:59:59Z".parse()?);
    /// # Ok::<(), uidring::Error>(())
    /// ```
    pub fn uid_range(&self, time: RangeInclusive<Timestamp>) -> Option<RangeInclusive<Uid>> {
        let from = (*time.start()).max(self.epoch);
        let to = (*time.end()).min(self.last_instant());
        if from > to {
            return None;
        }
        let (first, last) = (self.tick_at(from).ok()?, self.tick_at(to).ok()?);
        let smallest = self.pack(first, 0, 0);
        let greatest = self.pack(last, self.max_worker_id(), self.max_sequence());
        Some(smallest..=greatest)
    }

    /// Returns the tick of a number of this layout.
    pub(crate) fn tick_of(&self, number: u64) -> u64 {
        number >> (self.bits.worker + self.bits.sequence)
    }

    /// Returns the number at which a tick's uids start, for any worker. All uids of earlier ticks are below.
    pub(crate) fn first_number(&self, tick: u64) -> u64 {
        tick << (self.bits.worker + self.bits.sequence)
    }

    /// Combines fields that are known to be in range.
    pub(crate) fn pack(&self, tick: u64, worker_id: u64, sequence: u64) -> Uid {
        let bits = self.bits;
        Uid::from_layout(
            tick << (bits.worker + bits.sequence) | worker_id << bits.sequence | sequence,
        )
    }
}

/// Out of line: compilers avoid branches, and would also divide for millisecond ticks, for nothing.
#[cold]
#[inline(never)]
fn whole_seconds(millis: u64) -> u64 {
    millis / 1_000
}

/// [`Layout::UID_GENERATOR`].
impl Default for Layout {
    fn default() -> Self {
        Self::UID_GENERATOR
    }
}

pub(crate) fn check_field(field: &'static str, value: u64, max: u64) -> Result<(), Error> {
    if value <= max { Ok(()) } else { Err(Error::FieldOutOfRange { field, value, max }) }
}

fn saturating_timestamp(millis: i128) -> Timestamp {
    let limit = if millis < 0 { i64::MIN } else { i64::MAX };
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn widths_are_checked() {
        let new = |time, worker, sequence| {
            Layout::new(Bits { time, worker, sequence }, Tick::Second, EPOCH_2026)
        };
        assert!(new(61, 1, 1).is_ok());
        assert!(new(1, 1, 61).is_ok());
        assert!(new(1, 1, 1).is_ok());
        for (time, worker, sequence) in
            [(0, 22, 13), (28, 0, 13), (28, 22, 0), (29, 22, 13), (255, 255, 255)]
        {
            assert!(new(time, worker, sequence).is_err(), "{time}/{worker}/{sequence}");
        }
    }

    #[test]
    fn the_re_created_layout_ended_on_its_known_day() {
        let baidu = Layout::new(
            Layout::UID_GENERATOR.bits(),
            Tick::Second,
            at("2016-05-20T00:00:00+08:00"),
        )
        .expect("possible");
        assert_eq!(baidu.last_instant().date().to_string(), "2024-11-20");
        let error = baidu.tick_at(at("2026-01-01")).expect_err("over");
        assert!(error.to_string().contains("ended on 2024-11-20"), "{error}");
        assert_eq!(baidu.remaining_life(at("2026-01-01")), Duration::ZERO);
    }

    #[test]
    fn the_ends_of_time_do_not_wrap() {
        let long = Layout::new(Bits { time: 61, worker: 1, sequence: 1 }, Tick::Second, EPOCH_2026)
            .expect("possible");
        assert_eq!(long.last_instant(), Timestamp::from_millis(i64::MAX));
        assert_eq!(long.time_of(long.max_tick()), Timestamp::from_millis(i64::MAX));
        assert!(long.decode(long.max_uid()).is_ok());
        assert!(matches!(
            long.tick_at(Timestamp::from_millis(i64::MIN)),
            Err(Error::ClockBeforeEpoch { .. })
        ));
    }

    #[test]
    fn ranges_of_time_are_cut_to_the_layouts_life() {
        let layout = Layout::UID_GENERATOR;
        let all = layout.uid_range(at("1970-01-01")..=at("2999-01-01")).expect("overlaps");
        assert_eq!(all, layout.pack(0, 0, 0)..=layout.max_uid());
        assert_eq!(layout.uid_range(at("2020-01-01")..=at("2025-12-31")), None);
        assert_eq!(layout.uid_range(at("2036-01-01")..=at("2037-01-01")), None);
        let backwards = at("2026-03-02")..=at("2026-03-01");
        assert_eq!(layout.uid_range(backwards), None);
    }
}
