//! Worker ids from a ZooKeeper registry, laid out as Meituan's Leaf does.

mod cache;
mod instance;
mod keeper;
mod list;
mod nodes;
mod peers;
mod problem;
mod servers;
mod session;
mod start;
mod thread;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::instance::Instance;
use self::instance::check_name;
use self::keeper::RENEW_EVERY;
pub use self::list::LeafNode;
use self::nodes::Paths;
pub use self::servers::ZooKeeperServers;
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::layout::Layout;
use crate::worker::{Lease, LeaseTerms};

/// Leaf's registry in ZooKeeper: whoever comes by the same [`Instance`] name gets the same worker id
/// again, and a new name gets the next one.
///
/// It is the registry of Meituan's Leaf in snowflake mode, node for node, so that a Java Leaf can
/// share it; what Leaf lacks is kept in nodes of its own beside. A local file lets an instance
/// start that has started before while ZooKeeper is away. `docs/worker-ids.md` tells what holds
/// then.
///
/// ```no_run
/// use uidring::{Instance, Layout, LeafSnowflakeGenerator, LeafZooKeeper, ZooKeeperServers};
///
/// let servers = ZooKeeperServers::new("zk1:2181,zk2:2181,zk3:2181")?;
/// let registry = LeafZooKeeper::new(servers, "orders", Instance::new("web-0")?)?;
/// let lease = registry.acquire(&Layout::SNOWFLAKE)?;
/// let generator = LeafSnowflakeGenerator::builder().worker(lease).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeafZooKeeper {
    registry: Registry,
    address: Option<(String, String)>,
    cache: CachePlace,
    max_start_wait: Duration,
    max_outage: Option<Duration>,
    max_clock_difference: Option<Duration>,
    clock: Arc<dyn Clock>,
}

/// Where the local file is.
#[derive(Clone, Debug)]
enum CachePlace {
    DataDirectory,
    At(PathBuf),
    Nowhere,
}

/// The registry of one name, as one instance sees it. It prints as its servers and path.
#[derive(Clone, Debug)]
struct Registry {
    servers: ZooKeeperServers,
    name: String,
    paths: Paths,
    instance: Instance,
}

impl LeafZooKeeper {
    /// The registry of this name (Leaf's `leaf.name`) on these servers, for this instance.
    ///
    /// # Errors
    ///
    /// [`Error::LeafName`] for a name that cannot be one of a node and of a file.
    pub fn new(servers: ZooKeeperServers, name: &str, instance: Instance) -> Result<Self, Error> {
        check_name("registry", name)?;
        Ok(Self {
            registry: Registry { servers, name: name.into(), paths: Paths::new(name), instance },
            address: None,
            cache: CachePlace::DataDirectory,
            max_start_wait: Duration::from_secs(10),
            max_outage: None,
            max_clock_difference: None,
            clock: Arc::new(SystemClock),
        })
    }

    /// Address and port for people who look into the registry. By default they are those in the
    /// instance's name, if it has the form `ip:port`; else those in `UIDRING_HOST` and
    /// `UIDRING_PORT`; else an address of this machine, and port 0.
    #[must_use]
    pub fn address(mut self, ip: &str, port: u16) -> Self {
        self.address = Some((ip.into(), port.to_string()));
        self
    }

    /// The local file; by default it is `uidring/leaf/NAME/INSTANCE.json` in the user's data
    /// directory. Each instance needs one of its own, on a disk of its host; it has to outlive the
    /// process.
    #[must_use]
    pub fn cache_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = CachePlace::At(path.into());
        self
    }

    /// Does without a local file: no start without ZooKeeper, and uids end a few seconds after it
    /// has gone away.
    #[must_use]
    pub fn no_cache_file(mut self) -> Self {
        self.cache = CachePlace::Nowhere;
        self
    }

    /// How long the start of a generator on the clock waits for the clock to pass what was reserved
    /// before; 10 s by default. Beyond that the start is refused.
    #[must_use]
    pub fn max_start_wait(mut self, limit: Duration) -> Self {
        self.max_start_wait = limit;
        self
    }

    /// How long an instance may go on with its local file without a word from ZooKeeper, 4 s at
    /// least; without end by default, as Leaf does. It stops no later than that, for good.
    ///
    /// With a limit below the servers' session timeout no other host can have the same worker id
    /// before this one has stopped.
    #[must_use]
    pub fn max_outage(mut self, limit: Duration) -> Self {
        self.max_outage = Some(limit);
        self
    }

    /// How far this host's clock and the median of the live instances' may be apart at the start; by
    /// default nobody looks.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// The wall clock; the operating system's if not set. It should be the generator's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes the instance's worker id. It is the instance's for as long as the lease, or the
    /// generator that it is given to, is there.
    ///
    /// It blocks: for about 5 s while ZooKeeper is away ([`ZooKeeperServers::connect_deadline`]),
    /// and where a process of the same name has died just now, for as long as the servers take to
    /// notice ([`ZooKeeperServers::session_timeout`]). It has a thread of its own do the work, so that
    /// it may be called within a runtime, whose thread it blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Registry`] where ZooKeeper is away and there is no local file, where it refuses, or
    /// holds what cannot be used; [`Error::InstanceInUse`] where another process has the name;
    /// [`Error::RegistryFull`] where the number is over the layout's greatest worker id;
    /// [`Error::ClockBehindStored`], [`Error::PeerClocksDiffer`]; [`Error::ClockBeforeEpoch`] and
    /// [`Error::LayoutExhausted`] where the layout cannot express the present time;
    /// [`Error::CacheFile`], [`Error::NoDataDirectory`], [`Error::NodeIdentity`];
    /// [`Error::OptionOutOfRange`].
    pub fn acquire(&self, layout: &Layout) -> Result<Lease, Error> {
        start::acquire(self, layout)
    }

    fn terms(&self) -> LeaseTerms {
        LeaseTerms {
            renew_every: RENEW_EVERY,
            max_start_wait: self.max_start_wait,
            ..LeaseTerms::default()
        }
    }
}

impl Registry {
    /// The node that lives as long as the instance.
    fn temporary_node(&self) -> String {
        format!("{}/{}", self.paths.temporary(), self.instance)
    }

    /// The node of what the instance has reserved.
    fn reserved_node(&self) -> String {
        format!("{}/{}", self.paths.reserved(), self.instance)
    }

    fn error(&self, problem: String) -> Error {
        Error::Registry { registry: self.to_string(), problem }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/snowflake/{}", self.servers, self.name)
    }
}
