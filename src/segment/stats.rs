//! What a generator tells of a tag.

/// A look at one tag of a [`SegmentGenerator`](crate::SegmentGenerator). The parts are read one
/// after another while takers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct SegmentStats {
    /// The id that the next take would get, were there no others; none where nothing is in memory.
    pub position: Option<u64>,
    /// Ids in memory that are not taken yet: what the end of the process would waste.
    pub left: u64,
    /// Segments in memory, the current one included.
    pub segments: usize,
    /// Ids taken.
    pub taken: u64,
    /// Ids that this generator has reserved in the table.
    pub reserved: u64,
    /// Ids that were thrown away because the tag was removed, or the generator closed.
    pub discarded: u64,
    /// Ids that may have been lost because their taker's thread was stopped, twice, while the
    /// others used up several segments.
    pub lapped: u64,
    /// How often a segment was loaded.
    pub loads: u64,
    /// How often loading one failed.
    pub load_failures: u64,
    /// How many ids the next load asks for.
    pub step: u64,
    /// The table's step, as of the last look at it.
    pub table_step: u64,
    /// How many segments are kept in memory once the current one is used up to the mark.
    pub depth: u64,
    /// Takes and fills that had to sleep until a segment came.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// How often takers have used up all that was in memory.
    pub dried: u64,
}
