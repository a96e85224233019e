//! The names that a server's settings make.

use std::sync::Arc;
use std::time::Duration;

use uidring::WorkerSource;
use uidring::generator::CachedBuilder;
use uidring::policy::TakePolicy;
use uidring::segment::{Loaded, SegmentRequest, SegmentStore, SegmentTag};
use uidring::worker::EnvWorkerId;
use uidring::{CachedUidGenerator, Error, PerThreadGenerator, SegmentGenerator, StoreErrorKind};
use uidring_server::{Issuer, Names};
use uidring_store::SegmentTable;

use super::args::{NameArgs, Order, ServeArgs};
use super::config;
use crate::advice::with_flags;
use crate::args::database::Server;
use crate::args::layout::{Preset, ResolvedLayout};
use crate::args::set;
use crate::args::worker::{WorkerArgs, WorkerKind};
use crate::failure::Failure;
use crate::{report, stores, worker_source};

/// The name of the flags' own uids.
const DEFAULT: &str = "uid";

/// How often the tags of segments are read: a new one is a name after that.
const REFRESH: Duration = Duration::from_secs(10);

/// How far ahead of the clock clients may bring uids: docs/time.md says why.
const MAX_BORROW: Duration = Duration::from_secs(3_600);

/// More names are counted, and not all listed.
pub const SHOWN: usize = 12;

/// Names whose settings are checked; nothing is spent yet.
pub struct Plan<'a> {
    pub args: &'a ServeArgs,
    pub uids: Vec<Uids<'a>>,
}

/// A generator of uids, and its name.
pub struct Uids<'a> {
    name: &'a str,
    pub args: &'a NameArgs,
    pub layout: ResolvedLayout,
    worker: Box<dyn WorkerSource + Send>,
}

impl<'a> Plan<'a> {
    /// Checks the settings of all names.
    pub fn new(args: &'a ServeArgs, others: &'a config::Names) -> Result<Self, Failure> {
        let mut uids = vec![Uids::new(DEFAULT, &args.name)?];
        for (name, args) in others {
            if name == DEFAULT {
                return Err(Failure::Usage(format!(
                    "[names.{DEFAULT}]: the settings of `{DEFAULT}` stand above all tables"
                )));
            }
            uids.push(Uids::new(name, args).map_err(|failure| about(name, failure))?);
        }
        Ok(Self { args, uids })
    }

    /// Says which tags no client can reach.
    pub fn warn_of_hidden_tags(&self, tags: &[String]) {
        let names: Vec<_> = self.uids.iter().map(|uids| uids.name).collect();
        warn_of_hidden_tags(&names, tags);
    }

    /// Acquires worker ids, and returns the names, and a line about each.
    pub fn open(self) -> Result<(Names, Vec<String>), Failure> {
        let Self { args: settings, uids } = self;
        let own: Vec<_> = uids.iter().map(|uids| uids.name).collect();
        let mut names = Names::new();
        let mut lines = Vec::new();
        for uids in uids {
            let Uids { name, args, layout, worker } = uids;
            let policy = TakePolicy::WaitFor(settings.wait);
            // Ids of two names are two kinds, and may be equal.
            let builder = CachedUidGenerator::builder().layout(layout.layout).namespace(name);
            let builder = builder.take_policy(policy);
            let builder =
                set(builder.worker_from(worker), args.worker.start_after, |builder, uid| {
                    builder.start_after(uid)
                });
            let builder = set(builder, args.worker.max_start_wait, CachedBuilder::max_start_wait);
            // What takes worker ids back has a limit of its own.
            let is_given_back = args.worker.lease.worker != WorkerKind::Disposable
                || args.worker.registry.zookeeper.is_some();
            let builder =
                set(builder, (!is_given_back).then_some(MAX_BORROW), CachedBuilder::max_borrow);
            let built = args.ring.apply(builder).build();
            let advised = |error| Failure::from(error).advised(&args.worker.flags());
            let generator = built.map_err(|error| about(name, advised(error)))?;
            let origin = origin(&args.worker);
            lines.push(format!(
                "{name}: layout {}, {} from {origin}",
                layout.layout,
                layout.worker(generator.worker_id())
            ));
            let generator = Arc::new(generator);
            let issuer = match args.order {
                Order::Ordered => Issuer::Ordered(generator),
                Order::PerThread => Issuer::PerThread(PerThreadGenerator::new(generator)),
            };
            names = names.with(name, issuer).with_origin(name, &origin);
        }
        if has_segments(settings) {
            let flags = settings.name.worker.flags();
            let (segments, table) =
                segments(settings).map_err(|failure| failure.advised(&flags))?;
            let mut tags = segments.tags().unwrap_or_default();
            tags.sort();
            warn_of_hidden_tags(&own, &tags);
            tags.retain(|tag| !own.contains(&&**tag));
            let line = match &*tags {
                [] => {
                    "no tags of segments; `uidring segment create TAG --step S` creates one".into()
                }
                tags if tags.len() <= SHOWN => format!("tags of segments: {}", tags.join(", ")),
                tags => format!(
                    "{} tags of segments: {}, … (`uidring segment list` shows all)",
                    tags.len(),
                    tags[..SHOWN].join(", "),
                ),
            };
            lines.push(with_flags(&line, &flags));
            names = names.with_segments(Arc::new(segments)).with_rows(move || table.list_tags());
        }
        Ok((names, lines))
    }
}

fn warn_of_hidden_tags(names: &[&str], tags: &[String]) {
    for tag in tags.iter().filter(|tag| names.contains(&&***tag)) {
        report::warning(format_args!(
            "the tag `{tag}` is not served: the name `{tag}` is that of uids, and comes first; rename one of them"
        ));
    }
}

/// Segments, and their table for people.
type Segments = (SegmentGenerator, Box<dyn SegmentTable + Send + Sync>);

/// Whether segments are served: those of the database that has the worker ids, unless there is none, or it is a pod's
/// own.
pub fn has_segments(args: &ServeArgs) -> bool {
    let worker = &args.name.worker;
    let database = &worker.table.database;
    // Each pod's file would have the same ones.
    let is_ordinals = worker.lease.worker == WorkerKind::Ordinal;
    !(args.no_segments
        || is_ordinals
        || database.is_etcd()
        || worker.registry.zookeeper.is_some()
        || worker.worker_id.is_some() && !database.is_named())
}

fn segments(args: &ServeArgs) -> Result<Segments, Failure> {
    let database = stores::open(&args.name.worker.table.database)?;
    let store = UntilCreated(database.segment_store()?);
    let builder = SegmentGenerator::builder(store).take_policy(TakePolicy::WaitFor(args.wait));
    Ok((builder.refresh(REFRESH).build()?, database.segment_table()?))
}

/// A table that somebody may create later has no tags until then.
struct UntilCreated(Box<dyn SegmentStore>);

impl SegmentStore for UntilCreated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        match self.0.tags() {
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => Ok(Vec::new()),
            tags => tags,
        }
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.0.load(wanted, loaded);
    }
}

/// What went wrong, and with the table of which name.
fn about(name: &str, failure: Failure) -> Failure {
    match name {
        DEFAULT => failure,
        name => failure.about(&format!("names.{name}")),
    }
}

impl<'a> Uids<'a> {
    /// What went wrong with it.
    pub fn about(&self, failure: Failure) -> Failure {
        about(self.name, failure)
    }

    fn new(name: &'a str, args: &'a NameArgs) -> Result<Self, Failure> {
        let layout = args.layout.resolve(Preset::Uid)?;
        let power = args.ring.boost_power.unwrap_or(3);
        CachedUidGenerator::ring_memory(&layout.layout, power).map_err(Failure::usage)?;
        layout.check_now()?;
        let worker = worker_source::source(&args.worker, layout)
            .map_err(|failure| failure.advised(&args.worker.flags()))?;
        Ok(Self { name, args, layout, worker })
    }
}

/// Where worker ids come from, for people. No URL: it may hold a password.
fn origin(args: &WorkerArgs) -> String {
    let database = &args.table.database;
    let place = if args.registry.zookeeper.is_some() {
        return "ZooKeeper".into();
    } else if args.worker_id.is_some() {
        return "--worker-id".into();
    } else if !database.is_named() && EnvWorkerId::is_set() {
        EnvWorkerId::VARIABLE.into()
    } else if let Some(path) = &database.sqlite {
        path.display().to_string()
    } else if database.is_etcd() {
        "etcd".into()
    } else {
        match database.server() {
            Some(Server::MySql) => "the MySQL server".into(),
            Some(Server::Postgres) => "the PostgreSQL server".into(),
            None => "your data directory".into(),
        }
    };
    match args.lease.worker {
        WorkerKind::Disposable => place,
        WorkerKind::Lease => format!("a lease of {place}"),
        WorkerKind::Ordinal => format!("the ordinal, by a lease of {place}"),
    }
}
