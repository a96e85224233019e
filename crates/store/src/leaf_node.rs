//! An instance of Leaf's registry.

use uidring::Timestamp;

/// The node of an instance in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafNode {
    /// The number, which is the worker id. Negative if the registry's counter has overflowed.
    pub number: i64,
    /// The instance's name; Leaf uses `ip:port`.
    pub instance: String,
    /// Its address when it last started.
    pub ip: String,
    /// Its port when it last started.
    pub port: String,
    /// When it last uploaded, if the node says so.
    pub timestamp: Option<Timestamp>,
    /// Whether it is running now. A Java Leaf does not tell, and never counts as running.
    pub is_live: bool,
    /// Whether it issues only what the registry holds. False for a Java Leaf, and for an instance that risks repeats in
    /// outages.
    pub is_bounded: bool,
}
