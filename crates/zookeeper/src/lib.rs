//! Worker ids from a ZooKeeper registry with the layout of Meituan's Leaf.
//!
//! The feature `tls` adds TLS. The ZooKeeper client then brings in aws-lc, a cryptography library in C that takes half
//! a minute to build, beside ring, which the other stores use. If the process has not chosen one
//! ([`CryptoProvider::install_default`]), the first TLS connection installs ring.
//!
//! [`CryptoProvider::install_default`]: https://docs.rs/rustls/latest/rustls/crypto/struct.CryptoProvider.html

// The simulation uses private items.
#![cfg_attr(feature = "simulation", allow(async_fn_in_trait, missing_docs))]

mod any_store;
mod cache;
mod claim;
mod entry;
mod error;
#[cfg(feature = "tls")]
mod handshake;
mod instance;
mod leaf;
mod lease;
mod list;
mod live;
mod nodes;
mod registry;
mod servers;
mod session;
mod start;
mod thread;
#[cfg(feature = "tls")]
mod tls;
mod tree;
mod url;

/// The protocol, for simulations. Exempt from semantic versioning.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod protocol {
    pub use crate::cache::{Cached, LocalFile};
    pub use crate::claim::Before;
    pub use crate::entry::{Applicant, Mark};
    pub use crate::lease::end_of;
    pub use crate::nodes::{Reserved, instance_and_number};
    pub use crate::session::{Claim, Session, SessionHandle};
    pub use crate::start::begin;
    pub use crate::tree::{CreateMode, Ensemble, Failure, Stat, Tree, Write};
}

pub use self::error::ZooKeeperError;
pub use self::instance::Instance;
pub use self::leaf::LeafZooKeeper;
pub use self::servers::ZooKeeperServers;
pub use self::url::KIND;
pub use uidring_store::{AnyStore, LeafNode, StoreKind, TableError};
