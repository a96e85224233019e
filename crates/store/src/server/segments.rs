//! Loads segments from a server: which row is waited for, and what is said when another server answers.

use std::collections::HashSet;
use std::fmt;

use uidring::Error;
use uidring::adapter::log;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};

use super::Server;
use super::client::Client;
use super::connection::Operation;
use super::error::{ServerError, described};
use super::settings::Settings;
use super::tables::LEAF_ALLOC;
use super::tags::{Change, CreateTag, TagChange, Tags};
use crate::{MOST_TOGETHER, NewSegmentTag, SegmentTable, check_step};

/// Reserves a range.
///
/// What is wrong with the row is no problem of the connection's, and is not tried again.
pub struct Load<'a> {
    /// The tag, and how many ids.
    pub request: &'a SegmentRequest,
    /// How long a row is waited for that somebody else has locked.
    pub waits: Waits,
    /// The only server that is a good one, where that matters.
    pub only_server: Option<u64>,
}

/// Reserves a range for each of several tags, in one transaction.
///
/// It does what needs no thought. A tag whose range it cannot reserve (a row that is missing, or not sound)
/// keeps its row as it is, and a load of its own says why.
pub struct LoadTogether<'a> {
    /// The tags, each once.
    pub requests: &'a [&'a SegmentRequest],
    /// The only server that is a good one, where that matters.
    pub only_server: Option<u64>,
}

/// What became of them.
pub enum Together {
    /// The ranges that are reserved, in the order of the requests.
    Loaded(Vec<Option<Loaded>>),
    /// None is reserved: the server refused one of them, and all were rolled back.
    Apart {
        /// Somebody else has a row locked, which was waited for.
        has_waited: bool,
    },
}

/// How long a locked row is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// As long as a session does.
    Briefly,
    /// Not at all.
    Not,
}

/// A range that is reserved.
#[derive(Clone, Copy)]
pub struct Loaded {
    /// The range.
    pub range: LoadedSegment,
    /// A number of the server that has reserved it; 0 where it does not say.
    pub server: u64,
}

/// Why no range is reserved.
pub enum NotLoaded<P> {
    /// The row does not allow it.
    Row(LoadError),
    /// Somebody else has the row locked.
    Locked(P),
    /// The server cannot but wait.
    MustWait,
}

/// A server with a table `leaf_alloc`.
pub trait SegmentServer: Server {
    /// Returns the options of a client that loads.
    fn segment_options(&self) -> Self::Options {
        self.options()
    }
}

impl Load<'_> {
    /// What to say where another server answers than the only good one.
    pub const OTHER_SERVER: &'static str = "another server answers than at the start of this process: that may be a failover which has \
         lost commits, and ids may come twice; see that every max_id is above all ids in use, and \
         start anew";
}

/// The table `leaf_alloc` of a server, from which segments are loaded.
///
/// The connection is opened by the first load, kept, and opened anew when it broke. What may pass (no
/// connection, a server that is starting, a deadlock) is tried again until the server's deadline, for each
/// tag anew. If the connection breaks while a range is being committed, that range is given up, whether or
/// not it was reserved. A row that somebody else keeps locked is waited for once, for a second; after that
/// it is looked at without waiting, so that other tags go on.
///
/// Tags that wait at the same time are loaded together, up to 128 in a transaction. If one of them prevents
/// that, each is loaded in a transaction of its own.
///
/// It has a runtime of its own, and may be made, used and dropped within another.
pub struct ServerSegments<S: Server> {
    client: Client<S>,
    create_table_if_missing: bool,
    /// Tags whose row was locked when it was to be loaded last.
    locked: HashSet<String>,
    /// Whether the server may know how not to wait for a lock.
    may_skip: bool,
    /// A number of the server that reserved the last range.
    server: Option<u64>,
}

impl<S: SegmentServer> ServerSegments<S> {
    /// The table of this server.
    pub fn new(store: &S) -> Self {
        Self {
            client: Client::with_options(store, store.segment_options()),
            create_table_if_missing: false,
            locked: HashSet::new(),
            may_skip: true,
            server: None,
        }
    }

    /// Whether the table is made if it is missing, by adding or reading tags; by default it is an
    /// error. Only where it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// Where the table is.
    pub fn store(&self) -> &S {
        self.client.server()
    }

    /// Loads a segment. It waits for a locked row unless it has waited before: for this tag, or for
    /// another one of the same call.
    fn load_one(
        &mut self,
        request: &SegmentRequest,
        has_waited: &mut bool,
    ) -> Result<LoadedSegment, LoadError>
    where
        for<'a> Load<'a>: Operation<S, Done = Result<Loaded, NotLoaded<S::Problem>>>,
    {
        let only_server = self.only_server();
        let is_known = self.locked.contains(&request.tag);
        let mut waits = match self.may_skip && (is_known || *has_waited) {
            true => Waits::Not,
            false => Waits::Briefly,
        };
        loop {
            let done = self.client.try_run(&Load { request, waits, only_server });
            let done = done.map_err(|failed| match failed.is_final {
                true => LoadError::Refused(failed.error),
                false => LoadError::Store(failed.error),
            })?;
            return match done {
                Ok(loaded) => {
                    self.locked.remove(&request.tag);
                    self.note(loaded.server);
                    Ok(loaded.range)
                }
                Err(NotLoaded::Row(error)) => Err(error),
                Err(NotLoaded::Locked(problem)) => {
                    *has_waited = true;
                    self.locked.insert(request.tag.clone());
                    Err(self.store().explain(&LEAF_ALLOC, problem).into())
                }
                Err(NotLoaded::MustWait) => {
                    self.may_skip = false;
                    waits = Waits::Briefly;
                    continue;
                }
            };
        }
    }

    /// Loads a segment for each of these tags in one transaction. Returns the requests that need a load of
    /// their own.
    fn load_together(
        &mut self,
        wanted: &[SegmentRequest],
        group: &[usize],
        has_waited: &mut bool,
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    ) -> Result<Vec<usize>, Error>
    where
        for<'a> LoadTogether<'a>: Operation<S, Done = Together>,
    {
        let requests: Vec<_> = group.iter().map(|&index| &wanted[index]).collect();
        let work = LoadTogether { requests: &requests, only_server: self.only_server() };
        let done = match self.client.try_run(&work) {
            Ok(Together::Loaded(done)) => done,
            Ok(Together::Apart { has_waited: waited }) => {
                *has_waited |= waited;
                return Ok(group.to_vec());
            }
            Err(failed) if !failed.is_final && !self.client.has_reached() => {
                return Err(failed.error);
            }
            // Loads of their own find out whom it concerns.
            Err(_) => return Ok(group.to_vec()),
        };
        let mut apart = Vec::new();
        for (&index, done) in group.iter().zip(done) {
            match done {
                Some(done) => {
                    self.note(done.server);
                    loaded(index, Ok(done.range));
                }
                None => apart.push(index),
            }
        }
        Ok(apart)
    }

    /// The server that must answer, if only that one may.
    fn only_server(&self) -> Option<u64> {
        let Settings { requires_durability, is_cluster, .. } = *self.store().settings();
        self.server.filter(|_| requires_durability && !is_cluster)
    }

    /// Splits requests into groups to be loaded together, sorted by tag, and those to be loaded apart: rows
    /// that were locked last, and tags that are asked for twice.
    fn grouped(&self, wanted: &[SegmentRequest]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by(|&a, &b| wanted[a].tag.cmp(&wanted[b].tag));
        let mut apart = Vec::new();
        let mut before = None;
        order.retain(|&index| {
            let tag = &wanted[index].tag;
            let is_fit = before.replace(tag) != Some(tag) && !self.locked.contains(tag);
            if !is_fit {
                apart.push(index);
            }
            is_fit
        });
        let groups = order.chunks(MOST_TOGETHER).map(<[usize]>::to_vec).collect();
        (groups, apart)
    }

    /// Notes which server reserved a range. The generator uses the range only if it lies above all that
    /// this process has loaded for its tag; what other processes have loaded is not known here.
    fn note(&mut self, server: u64) {
        let before = self.server.replace(server);
        if before.is_some_and(|before| before != server) && !self.store().settings().is_cluster {
            log!(
                error,
                "{}: another server answers than before: that may be a failover which has lost \
                 commits, and ids may come twice; see that every max_id is above all ids in use",
                self.store()
            );
        }
    }
}

impl<S> SegmentStore for ServerSegments<S>
where
    S: SegmentServer + 'static,
    Client<S>: Send,
    Tags: Operation<S, Done = Vec<SegmentTag>>,
    for<'a> Load<'a>: Operation<S, Done = Result<Loaded, NotLoaded<S::Problem>>>,
    for<'a> LoadTogether<'a>: Operation<S, Done = Together>,
{
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.client.run(&Tags { create_table: self.create_table_if_missing })
    }

    /// If the server cannot be reached for one tag, those after it get the same error at once, so that
    /// nobody waits for many deadlines.
    fn load(
        &mut self,
        wanted: &[SegmentRequest],
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    ) {
        let (mut unreachable, mut has_waited) = (None, false);
        let (groups, mut apart) = self.grouped(wanted);
        for group in groups {
            if group.len() == 1 || unreachable.is_some() {
                apart.extend(group);
                continue;
            }
            match self.load_together(wanted, &group, &mut has_waited, loaded) {
                Ok(others) => apart.extend(others),
                Err(error) => {
                    unreachable = described(&error);
                    apart.extend(group);
                }
            }
        }
        apart.sort_unstable();
        for index in apart {
            if let Some((kind, problem)) = &unreachable {
                let error = ServerError::refusal(self.store(), *kind, String::clone(problem));
                loaded(index, Err(error.into()));
                continue;
            }
            let done = self.load_one(&wanted[index], &mut has_waited);
            if let Err(LoadError::Store(error)) = &done
                && !self.client.has_reached()
            {
                unreachable = described(error);
            }
            loaded(index, done);
        }
    }
}

impl<S> SegmentTable for ServerSegments<S>
where
    S: SegmentServer,
    Tags: Operation<S, Done = Vec<SegmentTag>>,
    for<'a> CreateTag<'a>: Operation<S, Done = Result<(), Error>>,
    for<'a> TagChange<'a>: Operation<S, Done = Result<SegmentTag, Error>>,
{
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error> {
        let work = CreateTag { tag, create_table: self.create_table_if_missing };
        Client::new(self.store()).run(&work)?
    }

    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error> {
        let work = Tags { create_table: false };
        Client::new(self.store()).run(&work)
    }

    fn set_step(&self, tag: &str, step: u64) -> Result<SegmentTag, Error> {
        let work = TagChange::new(tag, Change::Step(check_step(step)?));
        Client::new(self.store()).run(&work)?
    }

    fn delete_tag(&self, tag: &str) -> Result<SegmentTag, Error> {
        let work = TagChange::new(tag, Change::Delete);
        Client::new(self.store()).run(&work).map_err(|error| work.explain(error))?
    }
}

impl<S: SegmentServer> fmt::Debug for ServerSegments<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSegments")
            .field("server", &format_args!("{}", self.store()))
            .field("create_table_if_missing", &self.create_table_if_missing)
            .finish_non_exhaustive()
    }
}
