//! What the clock-driven generators differ in: data.

use std::time::Duration;

use crate::error::{Error, check_option};
use crate::layout::Layout;
use crate::ring::{IsRandom, RunStart};

/// Where a new tick's sequence starts.
///
/// At a low rate most ticks have one uid. If all of them had sequence 0, all would fall into the
/// same shard of a table that is split by `uid % shards`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequenceStart {
    /// At 0, as in Twitter's Snowflake and Baidu's UidGenerator.
    #[default]
    Zero,
    /// At a random number below this one, as in Leaf, where it is 100. A tick has fewer uids by as
    /// many as are passed over: half of it on average.
    RandomBelow(u64),
    /// One above the last tick's last one, modulo this number. Over shards whose number divides it,
    /// and is a power of two, that is exactly even, where random numbers are so in the long run
    /// only.
    Continue {
        /// The sequence starts below it.
        modulo: u64,
    },
    /// As `Continue`, modulo 1,024, or a quarter of the tick if that is less; the generator's first
    /// tick starts at a random number below that. So generators that issue few uids each spread as
    /// well as one that issues many.
    ///
    /// A tick that follows one that was used up starts at 0: at full load nothing is passed over.
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

    /// Returns where runs begin that are ticks of this layout, if a tick has so many uids. The offset of a number in
    /// its tick is in its lowest `offset_bits`.
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

/// What a take gets when the clock stands behind the last uid issued.
///
/// Whatever it is, no uid comes twice and none is below one before; a refusal changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockPolicy {
    /// [`ClockBackwards`](crate::TakeError::ClockBackwards) at once, as in Twitter's Snowflake and
    /// Baidu's UidGenerator.
    #[default]
    Refuse,
    /// A clock that is behind by this much or less is waited for, for twice as long as it is
    /// behind; then, or if it is behind by more, it is refused. As in Leaf, where it is 5 ms. Tries
    /// never wait: [`try_next_uid`](crate::UidGenerator::try_next_uid) refuses.
    WaitUpTo(Duration),
    /// While the clock is behind by this much or less, the last tick stands still: its uids go on,
    /// and when they are used up the take policy decides. Behind by more, it is refused.
    StandStill(Duration),
}
