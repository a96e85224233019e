//! What `--check` looks at besides the settings: whether what the server would make can be made.

use std::path::{Path, PathBuf};

use uidring_store::files::data_folder;

use super::args::{NameArgs, ServeArgs};
use super::config;
use super::place::BatchPlace;
use crate::args::database::DatabaseArgs;
use crate::failure::Failure;
use crate::stores;

/// Checks that missing files can be created. Nothing is left there.
pub fn files(args: &ServeArgs, others: &config::Names) -> Result<(), Failure> {
    if let Some(BatchPlace::At(path)) = &args.batch {
        can_be_made("the socket of --batch", path)?;
    }
    for name in [&args.name].into_iter().chain(others.values()) {
        let table = &name.worker.table;
        if let Some((what, path)) = worker_file(name)? {
            can_be_made(what, &path)?;
            // One that is not to be made says so when it is read.
            if !path.exists() && !is_made(&table.database) {
                stores::worker_table(table)?.usage()?;
            }
        }
    }
    Ok(())
}

/// The SQLite file of a name's worker ids, if they are in one.
fn worker_file(name: &NameArgs) -> Result<Option<(&'static str, PathBuf)>, Failure> {
    let database = &name.worker.table.database;
    let is_elsewhere = database.server().is_some()
        || database.is_etcd()
        || name.worker.registry.zookeeper.is_some()
        || name.worker.worker_id.is_some();
    Ok(match &database.sqlite {
        // Parameters stand after the last question mark.
        Some(path) => {
            let path = path.to_string_lossy();
            let path = path.rsplit_once('?').map_or(&*path, |(path, _)| path);
            Some(("the file of --sqlite", path.into()))
        }
        None if is_elsewhere => None,
        None => Some(("the worker file of the data directory", data_folder()?.join("workers.db"))),
    })
}

/// Whether a file that is missing is made.
fn is_made(database: &DatabaseArgs) -> bool {
    let Some(path) = &database.sqlite else { return true };
    let path = path.to_string_lossy();
    let parameters = path.rsplit_once('?').map_or("", |(_, parameters)| parameters);
    parameters.split('&').any(|parameter| parameter == "mode=rwc")
}

fn can_be_made(what: &str, path: &Path) -> Result<(), Failure> {
    if path.exists() {
        return Ok(());
    }
    let path = std::path::absolute(path)?;
    // The root of the file system exists.
    let Some(folder) = path.ancestors().skip(1).find(|folder| folder.exists()) else {
        return Ok(());
    };
    tempfile::tempfile_in(folder).map(drop).map_err(|error| {
        Failure::Failed(format!(
            "{what}, {}, cannot be made: {}: {error}",
            path.display(),
            folder.display()
        ))
    })
}
