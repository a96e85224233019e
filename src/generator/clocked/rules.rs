//! The rules in which the clock-driven generators differ.

use std::time::Duration;

use crate::error::{Error, check_option};
use crate::layout::Layout;
use crate::ring::{IsRandom, RunStart};

/// Where a new tick's sequence starts.
///
/// At a low rate most ticks have one uid. If all of these had sequence 0, they would fall into the same shard of a
/// table that is split by `uid % shards`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequenceStart {
    /// At 0, as in Twitter's Snowflake and Baidu's UidGenerator.
    #[default]
    Zero,
    /// At a random number below this one, as in Leaf, which uses 100. The tick loses the uids below it: half of this
    /// number on average.
    RandomBelow(u64),
    /// One above the last tick's last sequence, modulo this number. If the number of shards is a power of two that
    /// divides it, uids spread over the shards exactly evenly. Random starts are even only in the long run.
    Continue {
        /// The sequence starts below this.
        modulo: u64,
    },
    /// As `Continue`, modulo 1,024 or a quarter of the tick, whichever is less. The generator's first tick starts at a
    /// random number below that, so that many generators with few uids each spread as evenly as one with many.
    ///
    /// After a used-up tick, the next starts at 0, so nothing is lost at full load.
    Spread,
}

impl SequenceStart {
    /// The number below which a tick of this layout starts.
    fn limit(self, layout: &Layout) -> u64 {
        match self {
            Self::Zero => 1,
            Self::RandomBelow(limit) => limit,
            Self::Continue { modulo } => modulo,
            // An eighth of a Snowflake tick would be 512, and leave half of 1,024 shards empty.
            Self::Spread => (layout.uids_per_tick() / 4).clamp(1, 1_024),
        }
    }

    /// Returns where runs start that are ticks of this layout, if a tick has enough uids. A number's lowest
    /// `offset_bits` are its offset in its tick.
    pub(in crate::generator) fn of_runs(
        self,
        layout: &Layout,
        offset_bits: u8,
    ) -> Result<RunStart, Error> {
        let option = match self {
            Self::RandomBelow(_) => "sequence_start (random below)",
            Self::Continue { .. } => "sequence_start (modulo)",
            Self::Zero | Self::Spread => "sequence_start",
        };
        let (limit, length) = (self.limit(layout), layout.uids_per_tick());
        check_option(option, limit, 1..=length)?;
        let is_random = match self {
            Self::Zero | Self::Continue { .. } => IsRandom::Never,
            Self::Spread => IsRandom::First,
            Self::RandomBelow(_) => IsRandom::Always,
        };
        Ok(RunStart { limit, offset_mask: (1 << offset_bits) - 1, length, is_random })
    }
}

/// What a take does if the clock is behind the last uid.
///
/// In any case no uid repeats, none is below an earlier one, and a refusal changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockPolicy {
    /// Fails with [`ClockBackwards`](crate::TakeError::ClockBackwards) at once, as in Twitter's Snowflake and Baidu's
    /// UidGenerator.
    #[default]
    Refuse,
    /// Waits for a clock that is behind by at most this much, for twice as long as it is behind. Then, or if it is
    /// behind by more, the take fails. As in Leaf, which uses 5 ms. [`try_next_uid`](crate::UidGenerator::try_next_uid)
    /// never waits and fails at once.
    WaitUpTo(Duration),
    /// While the clock is behind by at most this much, continues within the last tick; when that is used up, the take
    /// policy decides. If the clock is behind by more, the take fails.
    StandStill(Duration),
}
