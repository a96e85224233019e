//! Where a URL's worker id comes from.

use uidring::generator::SnowflakeNode;
use uidring::worker::{FixedWorkerId, Ordinal};
use uidring::{Error, Layout, Worker, WorkerRequest, WorkerSource};
use uidring_store::options::{Given, Owner};
use uidring_store::url::Url;
use uidring_store::{AnyStore, LeaseOptions};

use crate::rows::{self, DISPOSABLE, LEASED, ORDINAL};

/// How to write a chosen worker id.
pub const FORM: &str = "worker:N, or worker:D/W with Snowflake's datacenter and worker";

/// A chosen worker id.
pub static OWNER: Owner = rows::owner("worker:N", &[]);

/// A worker id from a registry.
static REGISTERED: Owner = rows::owner("this engine, which assigns worker ids in its own way", &[]);

/// The bits of Snowflake's datacenter and worker.
const NODE_BITS: u8 = 10;

/// Layouts with fewer worker ids lease them by default. Others have too many to use up.
const MANY: u64 = 100_000;

/// The worker id of a `worker:` URL.
#[derive(Clone, Copy)]
pub enum FixedWorker {
    Id(u64),
    Node(SnowflakeNode),
}

impl FixedWorker {
    pub fn of(url: &str) -> Result<Self, String> {
        if url.starts_with("worker://") {
            return Err("no `//` follows after worker:".into());
        }
        let path = Url::split_path(url, "worker")?.path.concat();
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain).ok_or("what follows is no whole number from 0")
        };
        Ok(match path.split_once('/') {
            None => Self::Id(number(&path)?),
            Some((datacenter, worker)) => {
                let node = SnowflakeNode {
                    datacenter_id: number(datacenter)?,
                    worker_id: number(worker)?,
                };
                node.as_worker_id().map_err(|error| error.to_string())?;
                Self::Node(node)
            }
        })
    }
}

impl FixedWorker {
    /// Checks that the layout has the worker id, or says what is wrong.
    pub fn check(self, layout: Layout) -> Result<(), String> {
        if matches!(self, Self::Node(_)) && layout.bits().worker != NODE_BITS {
            return Err(format!(
                "worker:D/W is for layouts with {NODE_BITS} worker bits, such as snowflake, and not for {layout}; write \
                 worker:N"
            ));
        }
        match self.acquire(&WorkerRequest::new(layout)) {
            Ok(_) => Ok(()),
            Err(Error::WorkerIdOutOfRange { worker_id, max }) => Err(format!(
                "worker id {worker_id} is out of range: layout {layout} has worker ids 0 to {max}; choose one of them, or \
                 a layout with more worker bits"
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl WorkerSource for FixedWorker {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        match self {
            Self::Id(id) => FixedWorkerId(*id).acquire(request),
            Self::Node(node) => node.acquire(request),
        }
    }

    fn is_fixed(&self) -> bool {
        true
    }
}

/// Where a generator's worker id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerKind {
    /// The URL names it, as `worker:N`.
    Chosen,
    /// A registry gives one to each instance.
    Registered,
    /// Each start uses one up.
    Disposable,
    /// Leased, and given back when the generator is dropped.
    Leased,
    /// Leased, and set by the pod's ordinal.
    Ordinal,
}

impl WorkerKind {
    /// Returns the kind that a store's URL or the layout chooses.
    pub fn of(given: &Given, layout: Layout) -> Self {
        match given.text(&rows::WORKER) {
            Some("lease") => Self::Leased,
            Some("ordinal") => Self::Ordinal,
            None if layout.workers() < MANY => Self::Leased,
            _ => Self::Disposable,
        }
    }

    /// Returns the owner of this kind's options.
    pub fn owner(self) -> &'static Owner {
        match self {
            Self::Chosen => &OWNER,
            Self::Registered => &REGISTERED,
            Self::Disposable => &DISPOSABLE,
            Self::Leased => &LEASED,
            Self::Ordinal => &ORDINAL,
        }
    }

    /// Whether another process may get the worker id later, so that the store must know what was issued.
    pub fn is_given_back(self) -> bool {
        matches!(self, Self::Registered | Self::Leased | Self::Ordinal)
    }
}

/// Returns the source of a store's worker ids. Does not connect.
pub fn source(
    kind: WorkerKind,
    store: &dyn AnyStore,
    given: &Given,
    layout: Layout,
) -> Result<Box<dyn WorkerSource + Send>, Error> {
    match kind {
        WorkerKind::Leased => Ok(store.lease_table(lease(given))?),
        WorkerKind::Ordinal => {
            // A store without ordinals says so first, even if the environment names none.
            store.worker_of(Ordinal::new(0), lease(given))?;
            store.worker_of(ordinal(given, layout)?.0, lease(given))
        }
        WorkerKind::Disposable => Ok(store.worker_table(None)?),
        WorkerKind::Chosen | WorkerKind::Registered => store.own_workers(),
    }
}

/// Returns this pod's ordinal and its worker id.
pub fn ordinal(given: &Given, layout: Layout) -> Result<(Ordinal, u64), Error> {
    let offset = given.number(&rows::ORDINAL_OFFSET).unwrap_or_default();
    let ordinal = Ordinal::from_env()?.offset(offset);
    let worker_id = ordinal.worker_id(&layout).map_err(|error| match error {
        Error::WorkerIdOutOfRange { worker_id, max } => Error::Environment {
            problem: format!(
                "ordinal {} with ordinal-offset {offset} is worker id {worker_id}, and layout {layout} has worker ids 0 \
                 to {max}; choose a lower offset, or a layout with more worker bits",
                ordinal.number()
            ),
        },
        error => error,
    })?;
    Ok((ordinal, worker_id))
}

pub fn lease(given: &Given) -> LeaseOptions {
    let options = LeaseOptions::default();
    let options = options.wait_for(given.time(&rows::LEASE_WAIT).unwrap_or_default());
    match given.time(&rows::LEASE) {
        Some(lasts) => options.lasts(lasts),
        None => options,
    }
}
