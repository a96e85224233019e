//! What is kept outside: tables `WORKER_NODE`, where every start inserts a row and has its worker id;
//! tables `UIDRING_LEASE`, from which worker ids are leased; tables `leaf_alloc`, from which segments are
//! loaded; and Leaf's registry, where every instance has a node.

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod leases;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod table;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod tags;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod usage;

use std::path::Path;

#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub use self::leases::{LeaseOptions, LeaseRow, LeaseState, LeaseTable};
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub use self::table::{Pruned, WorkerNode, WorkerTable};
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub use self::tags::{NewSegmentTag, SegmentTable};
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub use self::usage::WorkerUsage;
use crate::error::Error;

/// Refuses a path that is a URL: its password would be in every text about the file.
fn check_path(what: &'static str, path: &Path) -> Result<(), Error> {
    if path.to_string_lossy().contains("://") {
        return Err(Error::UrlForPath { what });
    }
    Ok(())
}

/// Reads a file of secrets, of which no error repeats anything.
#[cfg(any(feature = "mysql", feature = "zookeeper"))]
fn read_text(what: &'static str, path: &Path) -> Result<String, Error> {
    check_path(what, path)?;
    let text = std::fs::read_to_string(path).map_err(|error| Error::DatabaseFile {
        what,
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    // Some editors begin a text with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// Makes the folder, with those that it is in, for its owner only, unless it is there.
#[cfg(any(feature = "sqlite", feature = "zookeeper"))]
fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
