//! Where a URL's worker id comes from.

use uidring::generator::SnowflakeNode;
use uidring::worker::Ordinal;
use uidring::{Error, Layout, WorkerSource};
use uidring_store::options::{Given, Owner};
use uidring_store::{AnyStore, LeaseOptions, StoreKind};

use crate::rows::{self, DISPOSABLE, LEASED, ORDINAL};

/// How to write a chosen worker id.
const FORM: &str = "worker:N, or worker:D/W with Snowflake's datacenter and worker";

/// A chosen worker id.
static CHOSEN: Owner = rows::owner("worker:N", &[]);

/// `worker:` URLs, which name a worker id and no store.
pub static KIND: StoreKind = StoreKind {
    options: &CHOSEN,
    schemes: &["worker"],
    form: FORM,
    is_file: true,
    has_own_workers: true,
    open: |_, _| {
        Err(StoreKind { form: STORE_FORM, ..KIND }.wrong("it names a worker id, and no store"))
    },
};

/// How to write the URL of a store.
const STORE_FORM: &str =
    "the URL of a store, such as sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/// A worker id from a registry.
static REGISTERED: Owner = rows::owner("this engine, which assigns worker ids in its own way", &[]);

/// The bits of Snowflake's datacenter and worker.
const NODE_BITS: u8 = 10;

/// The worker id of a `worker:` URL.
#[derive(Clone, Copy)]
pub struct FixedWorker {
    pub id: u64,
    /// Whether it was written as `D/W`.
    is_node: bool,
}

impl FixedWorker {
    /// Reads the worker id of a `worker:` URL; `None` for other kinds.
    pub fn of(kind: &StoreKind, url: &str) -> Result<Option<Self>, String> {
        if kind.schemes != KIND.schemes {
            return Ok(None);
        }
        if url.starts_with("worker://") {
            return Err("no `//` follows after worker:".into());
        }
        let path = kind.split(url)?.path.concat();
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain).ok_or("what follows is no whole number from 0")
        };
        let node = path.split_once('/');
        let id = match node {
            None => number(&path)?,
            Some((datacenter, worker)) => {
                let (datacenter_id, worker_id) = (number(datacenter)?, number(worker)?);
                let node = SnowflakeNode { datacenter_id, worker_id };
                node.as_worker_id().map_err(|error| error.to_string())?
            }
        };
        Ok(Some(Self { id, is_node: node.is_some() }))
    }

    /// Checks that the layout has the worker id, or says what is wrong.
    pub fn check(self, layout: Layout) -> Result<(), String> {
        if self.is_node && layout.bits().worker != NODE_BITS {
            return Err(format!(
                "worker:D/W is for layouts with {NODE_BITS} worker bits, such as snowflake, and not for {layout}; write \
                 worker:N"
            ));
        }
        layout.check_worker_id(self.id).map_err(|_| {
            format!(
                "worker id {} is out of range: layout {layout} has worker ids 0 to {}; choose one of them, or \
                 a layout with more worker bits",
                self.id,
                layout.max_worker_id()
            )
        })
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
    /// Returns the owner of this kind's options.
    pub fn owner(self) -> &'static Owner {
        match self {
            Self::Chosen => &CHOSEN,
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
        WorkerKind::Disposable => Ok(store.worker_table()?),
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
