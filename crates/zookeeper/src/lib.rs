//! Worker ids from a ZooKeeper registry, laid out as Meituan's Leaf does.

mod cache;
mod claim;
mod entry;
mod error;
mod instance;
mod leaf;
mod lease;
mod list;
mod live;
mod nodes;
mod peers;
mod registry;
mod servers;
mod session;
mod start;
mod thread;
mod tree;

#[cfg(any(test, feature = "simulation"))]
#[doc(hidden)]
pub mod model;

pub use self::error::{Right, ZooKeeperError};
pub use self::instance::Instance;
pub use self::leaf::LeafZooKeeper;
pub use self::list::LeafNode;
pub use self::servers::ZooKeeperServers;
pub use uidring_store::TableError;
