//! Segments from a table of a MySQL or MariaDB server.

use std::fmt;

use super::MySqlServer;
use super::blocking;
use super::kept::Kept;
use super::leaf_alloc::{CreateTag, Load, Tags};
use super::session::ISOLATION;
use crate::error::Error;
use crate::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
use crate::store::{NewSegmentTag, SegmentTable};

/// The table `leaf_alloc` of a MySQL or MariaDB server, from which segments are loaded.
///
/// A table made by the script of Meituan's Leaf works unchanged, and may be shared with instances of
/// Leaf. Each load is one transaction, which locks the tag's row for its five round trips.
///
/// The connection is opened by the first load, kept, and opened anew when it broke. What may pass (no
/// connection, a server that is starting, a deadlock) is tried again until the server's
/// [deadline](MySqlServer::deadline), for each tag anew. If the connection breaks while a range is being
/// committed, that range is given up, whether or not it was reserved.
///
/// It has a runtime of its own, and may be made, used and dropped within another.
///
/// ```no_run
/// use uidring::{MySqlSegments, MySqlServer, SegmentGenerator};
///
/// let server = MySqlServer::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = SegmentGenerator::builder(MySqlSegments::new(server)).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MySqlSegments {
    kept: Kept,
    create_table_if_missing: bool,
}

impl MySqlSegments {
    /// The table in the database that the server's URL names.
    pub fn new(server: MySqlServer) -> Self {
        let kept = Kept::new(server, vec![ISOLATION.into()]);
        Self { kept, create_table_if_missing: false }
    }

    /// Whether the table is made if it is missing, by adding or reading tags; by default it is an
    /// error. Only where it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// Where the table is.
    pub fn server(&self) -> &MySqlServer {
        self.kept.server()
    }

    fn load_one(&mut self, request: &SegmentRequest) -> Result<LoadedSegment, LoadError> {
        self.kept.run(&Load(request))?
    }
}

impl SegmentStore for MySqlSegments {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.kept.run(&Tags { create_table: self.create_table_if_missing })
    }

    /// A server that cannot be reached for one tag is not asked for those behind it: they get the
    /// same error at once, and nobody waits for many deadlines.
    fn load(
        &mut self,
        wanted: &[SegmentRequest],
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    ) {
        let mut unreachable = None;
        for (index, request) in wanted.iter().enumerate() {
            if let Some(problem) = &unreachable {
                loaded(index, Err(self.server().error(String::clone(problem)).into()));
                continue;
            }
            let done = self.load_one(request);
            if let Err(LoadError::Store(Error::Database { problem, .. })) = &done
                && !self.kept.has_reached()
            {
                unreachable = Some(problem.clone());
            }
            loaded(index, done);
        }
    }
}

impl SegmentTable for MySqlSegments {
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error> {
        let work = CreateTag { tag, create_table: self.create_table_if_missing };
        blocking::run(self.server(), self.server().run(&work))?
    }

    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error> {
        let work = Tags { create_table: false };
        blocking::run(self.server(), self.server().run(&work))
    }
}

impl fmt::Debug for MySqlSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlSegments")
            .field("server", self.server())
            .field("create_table_if_missing", &self.create_table_if_missing)
            .finish_non_exhaustive()
    }
}
