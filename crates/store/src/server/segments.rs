//! Loads segments from a server: which rows to wait for, and what to do if another server answers.

mod load;
mod tag_row;
mod tags;
mod together;

use std::collections::HashSet;
use std::fmt;

use uidring::Error;
use uidring::adapter::log;
use uidring::segment::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag,
};

use self::load::{Load, NotLoaded, Waits};
use self::tags::{Change, ChangeTag, CreateTag, ListTags};
use self::together::{LoadTogether, Together};
use super::client::Client;
use super::connection::Failed;
use super::engine::{Engine, Purpose};
use super::error::with_note;
use super::explain::explain;
use super::settings::Settings;
use super::store::ServerStore;
use super::tables::{LEAF_ALLOC, Table};
use crate::{MOST_TOGETHER, NewSegmentTag, SegmentTable, check_step, end_of};

/// The table `leaf_alloc` of a server, from which segments are loaded.
///
/// The first load opens the connection; later ones open it again if it broke. Failures that may pass (no connection, a
/// starting server, a deadlock) are retried until the deadline, separately for each tag. If a commit is cut off, the
/// range is given up, whether or not it was reserved. The first load that finds a row locked waits for a second. Later
/// ones do not wait, so that other tags proceed.
///
/// Tags that wait at the same time are loaded together, up to 128 in a transaction. If one of them prevents that, each
/// is loaded separately.
///
/// It has a runtime of its own, and works within another.
pub struct ServerSegments {
    client: Client,
    creates: &'static [Table],
    /// Tags whose row was locked at their last load.
    locked: HashSet<String>,
    /// False once the server has refused NOWAIT.
    may_skip: bool,
    /// The number of the server that reserved the last range.
    server: Option<u64>,
}

impl<E: Engine> ServerStore<E> {
    /// Returns the table `leaf_alloc`, for segments of dense numbers.
    pub fn segments(&self) -> ServerSegments {
        ServerSegments {
            client: Client::new(&self.server(), Purpose::Loads),
            creates: &[],
            locked: HashSet::new(),
            may_skip: true,
            server: None,
        }
    }
}

impl ServerSegments {
    /// Sets whether adding or reading tags creates a missing table; if not set, that is an error. The account needs the
    /// right to create it only if it is missing.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.creates = if create { &[LEAF_ALLOC] } else { &[] };
        self
    }

    fn admin(&self) -> Client {
        Client::new(self.client.server(), Purpose::Admin)
    }

    /// Loads a segment. Waits for a locked row, unless it has waited before: for this tag, or in the same call.
    fn load_one(
        &mut self,
        request: &SegmentRequest,
        has_waited: &mut bool,
    ) -> Result<LoadedSegment, LoadError> {
        let only_server = self.only_server();
        let is_known = self.locked.contains(&request.tag);
        let mut waits = match self.may_skip && (is_known || *has_waited) {
            true => Waits::Not,
            false => Waits::Briefly,
        };
        loop {
            return match self.client.try_run(&Load { request, waits, only_server }, &[])? {
                Ok(loaded) => {
                    self.locked.remove(&request.tag);
                    self.note(loaded.server);
                    Ok(loaded.range)
                }
                Err(NotLoaded::Row(error)) => Err(error),
                Err(NotLoaded::Locked(problem)) => {
                    *has_waited = true;
                    self.locked.insert(request.tag.clone());
                    Err(explain(&*self.client.server().engine, &LEAF_ALLOC, problem).into())
                }
                Err(NotLoaded::MustWait) => {
                    self.may_skip = false;
                    waits = Waits::Briefly;
                    continue;
                }
            };
        }
    }

    /// Loads a segment for each of these tags in one transaction. Returns the requests that must be loaded separately.
    fn load_together(
        &mut self,
        wanted: &[SegmentRequest],
        group: &[usize],
        has_waited: &mut bool,
        loaded: &mut Loaded<'_>,
    ) -> Result<Vec<usize>, LoadError> {
        let requests: Vec<_> = group.iter().map(|&index| &wanted[index]).collect();
        let work = LoadTogether { requests: &requests, only_server: self.only_server() };
        let done = match self.client.try_run(&work, &[]) {
            Ok(Together::Loaded(done)) => done,
            Ok(Together::Apart { has_waited: waited }) => {
                *has_waited |= waited;
                return Ok(group.to_vec());
            }
            Err(failed) if !self.client.has_reached() => return Err(failed.into()),
            // Separate loads find out which tag it concerns.
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

    /// Returns the only server that may answer, if there is one.
    fn only_server(&self) -> Option<u64> {
        let Settings { requires_durability, is_cluster, .. } = &self.client.server().settings;
        let (requires_durability, is_cluster) = (*requires_durability, *is_cluster);
        self.server.filter(|_| requires_durability && !is_cluster)
    }

    /// Splits requests into groups to load together, sorted by tag, and those to load separately: rows that were locked
    /// last time, and repeated tags.
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

    /// Remembers which server reserved a range. The generator uses only ranges above all that this process has loaded
    /// for the tag. It does not know what others loaded.
    fn note(&mut self, server: u64) {
        let before = self.server.replace(server);
        if before.is_some_and(|before| before != server)
            && !self.client.server().settings.is_cluster
        {
            log!(
                error,
                "{}: another server answers than before: that may be a failover which has lost \
                 commits, and ids may come twice; see that every max_id is above all ids in use",
                self.client.server()
            );
        }
    }
}

impl SegmentStore for ServerSegments {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.client.run_creating(&ListTags, self.creates)
    }

    /// If the server is unreachable, or has left two tags without an answer, the remaining tags fail at once with the
    /// same error. So a call takes a few deadlines at most, however many tags there are.
    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let (mut away, mut unanswered, mut has_waited) = (None::<LoadError>, 0, false);
        let (groups, mut apart) = self.grouped(wanted);
        for group in groups {
            if group.len() == 1 || away.is_some() {
                apart.extend(group);
                continue;
            }
            match self.load_together(wanted, &group, &mut has_waited, loaded) {
                Ok(others) => apart.extend(others),
                Err(error) => {
                    away = Some(error);
                    apart.extend(group);
                }
            }
        }
        apart.sort_unstable();
        for index in apart {
            if let Some(error) = &away {
                loaded(index, Err(error.clone()));
                continue;
            }
            let done = self.load_one(&wanted[index], &mut has_waited);
            if let Err(error) = &done
                && !self.client.has_answered()
            {
                // A single one may be the tag's fault, such as a trigger that hangs.
                unanswered += 1;
                if unanswered > 1 || !self.client.has_reached() {
                    away = Some(error.clone());
                }
            }
            loaded(index, done);
        }
    }
}

impl From<Failed> for LoadError {
    fn from(failed: Failed) -> Self {
        if failed.is_final { Self::Refused(failed.error) } else { Self::Store(failed.error) }
    }
}

impl SegmentTable for ServerSegments {
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error> {
        self.admin().run_creating(&CreateTag(tag), self.creates)?
    }

    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error> {
        self.admin().run(&ListTags)
    }

    fn set_step(&self, tag: &str, step: u64) -> Result<SegmentTag, Error> {
        self.admin().run_once(&ChangeTag { tag, change: Change::Step(check_step(step)?) })?
    }

    /// Reads where the tag's ids end, then deletes the tag only if they still end there.
    fn delete_tag(&self, tag: &str) -> Result<SegmentTag, Error> {
        let tags = self.list_tags()?;
        // If the tag is not found, the deletion finds out whether it is hidden.
        let found = tags.iter().find(|found| found.tag == tag);
        let max_id = found.map(end_of).transpose()?.unwrap_or_default();
        let done = self.admin().run_once(&ChangeTag { tag, change: Change::Delete { max_id } });
        done.map_err(|error| match found {
            Some(_) => with_note(error, &format!(" (its ids ended at max_id {max_id})")),
            None => error,
        })?
    }
}

impl fmt::Debug for ServerSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSegments")
            .field("server", &format_args!("{}", self.client.server()))
            .finish_non_exhaustive()
    }
}
