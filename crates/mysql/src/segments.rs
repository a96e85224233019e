//! Segments from a table of a MySQL or MariaDB server.

use uidring_store::server::ServerSegments;

use crate::MySqlStore;

/// The table `leaf_alloc`: a [`SegmentStore`](uidring::segment::SegmentStore), and the
/// [`SegmentTable`](crate::SegmentTable) of its tags.
///
/// A table made by the script of Meituan's Leaf works unchanged, and may be shared with instances of
/// Leaf. Each load is one transaction, which locks the rows of its tags for its five round trips.
///
/// ```no_run
/// use uidring::SegmentGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = SegmentGenerator::builder(store.segments()).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlSegments = ServerSegments<MySqlStore>;

impl MySqlStore {
    /// The table `leaf_alloc`: segments of dense numbers.
    pub fn segments(&self) -> MySqlSegments {
        ServerSegments::new(self)
    }
}
