//! Creates tables.

use super::connection::Operation;
use super::new_tables::create;
use super::session::{Done, Session};
use super::tables::{Table, WORKER_NODE};

/// Creates the tables that are missing.
pub struct Create(pub &'static [Table]);

impl Operation for Create {
    // The server's error names the table that cannot be created.
    const TABLE: Table = WORKER_NODE;

    type Done = ();

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        create(session, self.0).await
    }
}
