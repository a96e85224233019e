//! Segments from a table of a MySQL or MariaDB server.

mod rows;

use std::collections::HashSet;
use std::fmt;

use uidring::Error;
use uidring::adapter::{Chain, log};
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
use uidring_store::{NewSegmentTag, SegmentTable, check_step};

use self::rows::{Change, ChangeTag, CreateTag, Load, NotLoaded, Tags, Waits};
use crate::client::Client;
use crate::error::advice::to_error;
use crate::tables::LEAF_ALLOC;
use crate::{MySqlError, MySqlStore};

/// The table `leaf_alloc` of a MySQL or MariaDB server, from which segments are loaded.
///
/// A table made by the script of Meituan's Leaf works unchanged, and may be shared with instances of
/// Leaf. Each load is one transaction, which locks the tag's row for its five round trips.
///
/// The connection is opened by the first load, kept, and opened anew when it broke. What may pass (no
/// connection, a server that is starting, a deadlock) is tried again until the server's
/// [deadline](MySqlStore::deadline), for each tag anew. If the connection breaks while a range is being
/// committed, that range is given up, whether or not it was reserved. A row that somebody else keeps
/// locked is waited for once, for a second; after that it is looked at without waiting, so that other
/// tags go on.
///
/// It has a runtime of its own, and may be made, used and dropped within another.
///
/// ```no_run
/// use uidring::SegmentGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = SegmentGenerator::builder(store.segments()).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MySqlSegments {
    client: Client,
    create_table_if_missing: bool,
    /// Tags whose row was locked when it was to be loaded last.
    locked: HashSet<String>,
    /// Whether the server may know how not to wait for a lock.
    may_skip: bool,
    /// A number of the server that reserved the last range.
    server: Option<u64>,
}

impl MySqlStore {
    /// The table `leaf_alloc`: segments of dense numbers.
    pub fn segments(&self) -> MySqlSegments {
        MySqlSegments {
            client: Client::lasting(self, None),
            create_table_if_missing: false,
            locked: HashSet::new(),
            may_skip: true,
            server: None,
        }
    }
}

impl MySqlSegments {
    /// Whether the table is made if it is missing, by adding or reading tags; by default it is an
    /// error. Only where it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// Where the table is.
    pub fn store(&self) -> &MySqlStore {
        self.client.store()
    }

    /// Loads a segment. It waits for a locked row unless it has waited before: for this tag, or for
    /// another one of the same call.
    fn load_one(
        &mut self,
        request: &SegmentRequest,
        has_waited: &mut bool,
    ) -> Result<LoadedSegment, LoadError> {
        let is_strict = self.store().requires_durability && !self.store().is_cluster;
        let only_server = self.server.filter(|_| is_strict);
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
                    Err(to_error(self.store(), &LEAF_ALLOC, problem).into())
                }
                Err(NotLoaded::MustWait) => {
                    self.may_skip = false;
                    waits = Waits::Briefly;
                    continue;
                }
            };
        }
    }

    /// Notes which server reserved a range. The generator uses the range only if it lies above all that
    /// this process has loaded for its tag; what other processes have loaded is not known here.
    fn note(&mut self, server: u64) {
        let before = self.server.replace(server);
        if before.is_some_and(|before| before != server) && !self.store().is_cluster {
            log!(
                error,
                "{}: another server answers than before: that may be a failover which has lost \
                 commits, and ids may come twice; see that every max_id is above all ids in use",
                self.store()
            );
        }
    }
}

impl SegmentStore for MySqlSegments {
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
        for (index, request) in wanted.iter().enumerate() {
            if let Some((kind, problem)) = &unreachable {
                loaded(index, Err(self.store().error(*kind, String::clone(problem)).into()));
                continue;
            }
            let done = self.load_one(request, &mut has_waited);
            if let Err(LoadError::Store(error)) = &done
                && let Some(MySqlError::Database { kind, problem, source, .. }) = error.store()
                && !self.client.has_reached()
            {
                let cause = source.as_deref().map(|cause| format!(": {}", Chain(cause)));
                unreachable = Some((*kind, format!("{problem}{}", cause.unwrap_or_default())));
            }
            loaded(index, done);
        }
    }
}

impl SegmentTable for MySqlSegments {
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error> {
        let work = CreateTag { tag, create_table: self.create_table_if_missing };
        Client::new(self.store()).run(&work)?
    }

    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error> {
        let work = Tags { create_table: false };
        Client::new(self.store()).run(&work)
    }

    fn set_step(&self, tag: &str, step: u64) -> Result<SegmentTag, Error> {
        let work = ChangeTag::new(tag, Change::Step(check_step(step)?));
        Client::new(self.store()).run(&work)?
    }

    fn delete_tag(&self, tag: &str) -> Result<SegmentTag, Error> {
        let work = ChangeTag::new(tag, Change::Delete);
        Client::new(self.store()).run(&work).map_err(|error| work.explain(error))?
    }
}

impl fmt::Debug for MySqlSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlSegments")
            .field("server", self.store())
            .field("create_table_if_missing", &self.create_table_if_missing)
            .finish_non_exhaustive()
    }
}
