//! What an attack needs to know of a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use uidring::segment::SegmentStore;
use uidring::worker::Lease;
use uidring::{Error, Layout};

/// What a store is attacked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Workers,
    Leases,
    Segments,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Workers, Self::Leases, Self::Segments];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Leases => "leases",
            Self::Segments => "segments",
        }
    }
}

/// The tags that a store of segments has at the start.
pub const TAGS: [&str; 2] = ["a", "b"];

/// What attackers need to know of a store.
#[derive(Clone, Debug)]
pub struct Place {
    /// What [`Store::address`] has answered.
    pub address: String,
    /// Stands for the host: no two processes of one slot live at the same time.
    pub slot: usize,
    /// No other start has it.
    pub unique: String,
}

/// A store as attackers use it.
pub trait Target: Sync {
    fn name(&self) -> &'static str;

    fn kinds(&self) -> &'static [Kind];

    /// Starts the store, with all its files in the temporary folder.
    fn start(&self) -> Box<dyn Store>;

    /// A worker id that no other start may get.
    fn worker_id(&self, place: &Place) -> Result<u64, Error>;

    /// A lease of one of few worker ids.
    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error>;

    /// The table of [`TAGS`].
    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error>;

    /// What an error comes of; `None` for one that nothing explains.
    fn cause(&self, error: &str) -> Option<Cause>;
}

/// A store that has been started.
pub trait Store: Sync {
    /// Tells attackers where it is. Worker ids may come again at another address. `round` is the number
    /// of processes before.
    fn address(&self, round: usize) -> String;

    fn server(&self) -> Option<&dyn Server>;
}

/// A server that the driver may ill-treat.
pub trait Server: Sync {
    fn kill(&self);
    fn start_again(&self);
    fn freeze(&self);
    fn thaw(&self);
}

/// Servers of this crate may be ill-treated.
#[cfg(any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper"))]
macro_rules! ill_treated {
    ($($server:ty),*) => {$(
        impl Server for $server {
            fn kill(&self) {
                Self::kill(self);
            }

            fn start_again(&self) {
                Self::start_again(self);
            }

            fn freeze(&self) {
                Self::freeze(self);
            }

            fn thaw(&self) {
                Self::thaw(self);
            }
        }
    )*};
}

#[cfg(feature = "etcd")]
ill_treated!(crate::etcd::Etcd);
#[cfg(feature = "mariadb")]
ill_treated!(crate::mariadb::MariaDb);
#[cfg(feature = "postgres")]
ill_treated!(crate::postgres::Postgres);
#[cfg(feature = "zookeeper")]
ill_treated!(crate::zookeeper::ZooKeeper);

/// What may explain an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All worker ids are held, or used up.
    NoneFree,
    /// A lease was not renewed in time.
    Lost,
    /// For half of the time or more, a process was stopped, which may have held a lock, or the machine
    /// stalled.
    Locked,
    /// The server or a process was stopped, or the machine stalled, shortly before or meanwhile.
    Away,
}

/// Three bits of worker ids: they are scarce.
pub fn layout() -> Layout {
    use uidring::{Bits, Tick};
    let bits = Bits { time: 41, worker: 3, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Milliseconds since 1970, which all processes of a machine agree on.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("soon")
}

/// The files in a folder.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
