//! Segments from a table of a PostgreSQL server.

use uidring_store::server::ServerSegments;

use crate::PostgresStore;

/// The table `leaf_alloc`: a [`SegmentStore`](uidring::segment::SegmentStore), and the
/// [`SegmentTable`](crate::SegmentTable) of its tags.
///
/// Each load is one transaction, which locks the rows of its tags for its three round trips.
///
/// ```no_run
/// use uidring::SegmentGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = SegmentGenerator::builder(store.segments()).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresSegments = ServerSegments<PostgresStore>;

impl PostgresStore {
    /// The table `leaf_alloc`: segments of dense numbers.
    pub fn segments(&self) -> PostgresSegments {
        ServerSegments::new(self)
    }
}
