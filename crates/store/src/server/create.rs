//! Creates tables.

use super::connection::Operation;
use super::engine::Engine;
use super::new_tables::create;
use super::session::Done;
use super::tables::{Table, WORKER_NODE};

/// Creates the tables that are missing.
pub struct Create(pub &'static [Table]);

impl<E: Engine> Operation<E> for Create {
    // The server's error names the table that cannot be created.
    type Done = ();

    fn table(&self) -> Table {
        WORKER_NODE
    }

    async fn run(&self, session: &mut E::Session) -> Done<E::Session, ()> {
        create(session, self.0).await
    }
}
