//! Statistics of a tag.

/// Statistics of one tag of a [`SegmentGenerator`](crate::SegmentGenerator). The fields are read one after another,
/// while takes go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct SegmentStats {
    /// The id of the next take; `None` if nothing is in memory.
    pub position: Option<u64>,
    /// Ids in memory that are not taken yet. They are lost if the process ends.
    pub left: u64,
    /// Segments in memory, including the current one.
    pub segments: usize,
    /// Ids taken.
    pub taken: u64,
    /// Ids that this generator has reserved in the table.
    pub reserved: u64,
    /// Ids discarded because the tag was removed, its row went back, or the generator was closed.
    pub discarded: u64,
    /// Ids that may have been lost because their taker's thread stopped twice, while others used up several segments.
    pub lapped: u64,
    /// Segments loaded.
    pub loads: u64,
    /// Failed loads.
    pub load_failures: u64,
    /// How many ids the next load asks for.
    pub step: u64,
    /// The table's step when last read.
    pub table_step: u64,
    /// How many segments are kept in memory once the current one has passed its mark.
    pub depth: u64,
    /// Takes and fills that had to sleep.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// How often takers used up all that was in memory.
    pub dried: u64,
}
