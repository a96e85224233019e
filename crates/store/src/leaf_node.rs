//! An instance of Leaf's registry.

use uidring::Timestamp;

/// An instance's node in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafNode {
    /// The number, which is the worker id; negative where the registry's counter has overflowed.
    pub number: i64,
    /// The instance's name: for Leaf `ip:port`.
    pub instance: String,
    /// Its address when it last started.
    pub ip: String,
    /// Its port, likewise.
    pub port: String,
    /// When it last uploaded; `None` if the node does not say.
    pub timestamp: Option<Timestamp>,
    /// Whether it is running now. A Java Leaf does not tell, and never counts as running.
    pub is_live: bool,
    /// Whether it issues only what the registry holds. A Java Leaf does not, nor does an instance
    /// that risks repeats in outages.
    pub is_bounded: bool,
}
