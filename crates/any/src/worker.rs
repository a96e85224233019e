//! Where a URL's worker id comes from.

use uidring::generator::SnowflakeNode;
use uidring::worker::{FixedWorkerId, Ordinal};
use uidring::{Error, Layout, Worker, WorkerRequest, WorkerSource};
use uidring_store::options::{Given, Owner};
use uidring_store::url::Url;
use uidring_store::{AnyStore, LeaseOptions};

use crate::rows::{self, DISPOSABLE, LEASED, ORDINAL};

/// How a worker id of one's choice is written.
pub const FORM: &str = "worker:N, or worker:D/W with Snowflake's datacenter and worker";

/// A worker id of one's choice.
pub static OWNER: Owner = rows::owner("worker:N", &[]);

/// Layouts with fewer worker ids than this lease them by default: the others are too many to be used up.
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

/// Returns the source of worker ids that the options choose. `check` refuses the options of other kinds.
pub fn source(
    store: &dyn AnyStore,
    given: &Given,
    layout: Layout,
    check: impl Fn(&Owner) -> Result<(), Error>,
) -> Result<Box<dyn WorkerSource + Send>, Error> {
    if let Some(source) = store.own_workers() {
        check(&rows::owner("this engine, which assigns worker ids in its own way", &[]))?;
        return Ok(source);
    }
    let default = if layout.workers() < MANY { "lease" } else { "disposable" };
    match given.text(&rows::WORKER).unwrap_or(default) {
        "lease" => {
            check(&LEASED)?;
            Ok(store.lease_table(lease(given))?)
        }
        "ordinal" => {
            check(&ORDINAL)?;
            let offset = given.number(&rows::ORDINAL_OFFSET).unwrap_or_default();
            let of = |ordinal: Ordinal| store.worker_of(ordinal.offset(offset), lease(given));
            // A store without ordinals says so, whether or not there is one.
            of(Ordinal::new(0))?;
            of(Ordinal::from_env()?)
        }
        _ => {
            check(&DISPOSABLE)?;
            Ok(store.worker_table(None)?)
        }
    }
}

fn lease(given: &Given) -> LeaseOptions {
    let options = LeaseOptions::default();
    let options = options.wait_for(given.time(&rows::LEASE_WAIT).unwrap_or_default());
    match given.time(&rows::LEASE) {
        Some(lasts) => options.lasts(lasts),
        None => options,
    }
}
