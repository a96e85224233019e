//! The options of an instance of Leaf's registry.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uidring::Error;
use uidring::clock::{Clock, SystemClock};

use super::instance::Instance;
use super::registry::{Outages, Registry};
use super::servers::ZooKeeperServers;

/// Leaf's registry in ZooKeeper. An [`Instance`] name always gets the same worker id, and a new name gets the next one.
///
/// Before it issues ids, an instance reserves them in the registry, including those it needs while ZooKeeper is away
/// ([`max_outage`](Self::max_outage)). If ZooKeeper is away for longer, the lease is lost. So uids are unique whatever
/// clocks, pauses, crashes and partitions do, as long as the registry forgets nothing.
///
/// The registry is that of Meituan's Leaf in snowflake mode, so Java Leafs can have numbers in it, too; nodes that Leaf
/// does not read hold the reservations. An instance can also work as Leaf itself does, at its [own
/// risk](Self::risk_repeats_in_outages). See `docs/inside-stores.md`.
///
/// ```no_run
/// use uidring::ClockedUidGenerator;
/// use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};
///
/// let servers = ZooKeeperServers::new("zk1:2181,zk2:2181,zk3:2181")?;
/// let registry = LeafZooKeeper::new(servers, "orders", Instance::new("web-0")?)?;
/// let generator = ClockedUidGenerator::leaf_snowflake().worker_from(registry).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeafZooKeeper {
    pub(super) registry: Registry,
    /// Whether the instance has a name. Without one, the registry can only be inspected.
    pub(super) is_named: bool,
    pub(super) address: Option<(String, String)>,
    pub(super) cache: CacheLocation,
    pub(super) max_clock_difference: Option<Duration>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The location of the local file.
#[derive(Clone, Debug)]
pub(super) enum CacheLocation {
    DataDirectory,
    At(PathBuf),
    None,
}

impl LeafZooKeeper {
    /// Returns the registry with this name (Leaf's `leaf.name`) on these servers, for this instance.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::LeafName`](super::ZooKeeperError::LeafName) if a node or a file cannot have the name.
    pub fn new(servers: ZooKeeperServers, name: &str, instance: Instance) -> Result<Self, Error> {
        Ok(Self {
            registry: Registry::new(servers, name, instance)?,
            is_named: true,
            address: None,
            cache: CacheLocation::DataDirectory,
            max_clock_difference: None,
            clock: Arc::new(SystemClock),
        })
    }

    /// Sets the address and port that the registry shows to people. The default is those in the instance's name, if it
    /// has the form `ip:port`; else `UIDRING_HOST` and `UIDRING_PORT`; else an address of this machine and port 0.
    #[must_use]
    pub fn address(mut self, ip: &str, port: u16) -> Self {
        self.address = Some((ip.into(), port.to_string()));
        self
    }

    /// Sets the local file. The default is `uidring/leaf/NAME/INSTANCE@bounded.json` in the user's data directory,
    /// without `@bounded` for an instance that [risks repeats](Self::risk_repeats_in_outages). Each instance needs its
    /// own file, on a disk of its host.
    ///
    /// The file makes a second process on this host fail at once, and lets a start after a crash skip waiting for the
    /// session to end. It grants nothing.
    #[must_use]
    pub fn cache_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = CacheLocation::At(path.into());
        self
    }

    /// Uses no local file.
    #[must_use]
    pub fn no_cache_file(mut self) -> Self {
        self.cache = CacheLocation::None;
        self
    }

    /// Sets how long an instance may go on without an answer from ZooKeeper, at least 1 s. The default is nine tenths
    /// of the session timeout that the servers grant, so 9 s of 10 s. After that it stops for good, with
    /// [`TakeError::LeaseLost`](uidring::TakeError::LeaseLost). Time in which the machine is suspended counts, if the
    /// system reports it.
    ///
    /// Each renewal reserves ids that far ahead, and the instance issues these meanwhile. After a crash they stay
    /// reserved, and the next start begins above them.
    ///
    /// A start fails if this is more than nine tenths of the session, because another host could get the name before
    /// this one has stopped.
    #[must_use]
    pub fn max_outage(mut self, limit: Duration) -> Self {
        self.registry.outages = Outages::Bounded(Some(limit));
        self
    }

    /// Lets the instance go on without ZooKeeper for any time, and start from the local file alone, as Leaf does.
    /// **Uids repeat** if the instance is cut off, and another process with its name starts where it cannot see that
    /// file.
    ///
    /// Use it to take over the numbers of Java Leafs, if you accept that risk. The nodes have Leaf's names, so the
    /// instance gets the number of the Java Leaf of the same name. An instance that does not risk repeats has another
    /// number. This setting and [`max_outage`](Self::max_outage) exclude each other; the last call wins.
    #[must_use]
    pub fn risk_repeats_in_outages(mut self) -> Self {
        self.registry.outages = Outages::Unbounded;
        self
    }

    /// Sets how far this host's clock may be from the median of the live instances' clocks at the start. By default
    /// they are not compared.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// Sets the wall clock, the operating system's by default. The generator should use the same.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}
