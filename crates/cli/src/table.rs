//! Which table the flags and the environment mean.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::path::Path;
use std::time::Duration;

use uidring::WorkerSource;
use uidring::segment::SegmentStore;
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

use super::Failure;
use super::args::{PlaceArgs, TableArgs};

/// A database, which has a table of each kind.
pub trait Database {
    /// The table of worker ids, and how far its clock may be from this host's.
    fn worker_table(&self, limit: Option<Duration>) -> Box<dyn WorkerTable + Send>;

    fn lease_table(&self) -> Box<dyn LeaseTable>;

    /// The table of leases, for a generator.
    fn leases(&self, options: LeaseOptions) -> Box<dyn WorkerSource + Send>;

    fn segment_table(&self) -> Box<dyn SegmentTable>;

    /// The table of tags, to load segments from.
    fn segment_store(&self) -> Box<dyn SegmentStore>;
}

impl PlaceArgs {
    /// The database that the flags name, if they name one.
    fn named(&self) -> Result<Option<Box<dyn Database>>, Failure> {
        if let Some(path) = &self.sqlite {
            self.refuse_mysql_flags()?;
            file(Some(path)).map(Some)
        } else if self.mysql.is_some() || self.mysql_url_file.is_some() {
            server(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether no flag names a place.
    pub fn is_unnamed(&self) -> bool {
        self.sqlite.is_none() && self.mysql.is_none() && self.mysql_url_file.is_none()
    }

    /// The database that the environment names, else the user's own file.
    fn unnamed(&self) -> Result<Box<dyn Database>, Failure> {
        if is_server_in_environment() {
            server(self)
        } else {
            self.refuse_mysql_flags()?;
            file(None)
        }
    }

    /// The database that the flags name, else the environment, else the user's own file.
    pub fn any(&self) -> Result<Box<dyn Database>, Failure> {
        match self.named()? {
            Some(place) => Ok(place),
            None => self.unnamed(),
        }
    }

    /// A flag that would have no effect is a mistake, this one a dangerous one.
    pub fn refuse_mysql_flags(&self) -> Result<(), Failure> {
        if self.mysql_ca.is_some() {
            return Err(needs_a_server("--mysql-ca"));
        }
        if self.mysql_require_durability {
            return Err(needs_a_server("--mysql-require-durability"));
        }
        if self.mysql_cluster {
            return Err(needs_a_server("--mysql-cluster"));
        }
        Ok(())
    }

    fn is_server(&self) -> bool {
        self.sqlite.is_none() && (!self.is_unnamed() || is_server_in_environment())
    }
}

impl TableArgs {
    /// The table that the flags name, if they name one.
    pub fn named(&self) -> Result<Option<Box<dyn WorkerTable + Send>>, Failure> {
        // The flags may be another source's, such as a registry's.
        if self.place.is_unnamed() {
            return Ok(None);
        }
        self.check()?;
        Ok(self.place.named()?.map(|place| self.table(&*place)))
    }

    /// The table that the environment names, else the user's own file.
    pub fn unnamed(&self) -> Result<Box<dyn WorkerTable + Send>, Failure> {
        self.check()?;
        Ok(self.table(&*self.place.unnamed()?))
    }

    /// The table that the flags name, else the environment, else the user's own file.
    pub fn any(&self) -> Result<Box<dyn WorkerTable + Send>, Failure> {
        self.check()?;
        Ok(self.table(&*self.place.any()?))
    }

    /// A flag that would have no effect is a mistake, these ones dangerous ones.
    pub fn refuse_mysql_flags(&self) -> Result<(), Failure> {
        self.place.refuse_mysql_flags()?;
        if self.max_clock_difference.is_some() {
            return Err(needs_a_server("--max-clock-difference"));
        }
        Ok(())
    }

    /// What is wrong with the flags, before anything is looked for.
    fn check(&self) -> Result<(), Failure> {
        if self.place.is_server() { Ok(()) } else { self.refuse_mysql_flags() }
    }

    fn table(&self, database: &dyn Database) -> Box<dyn WorkerTable + Send> {
        database.worker_table(self.max_clock_difference)
    }
}

fn needs_a_server(flag: &str) -> Failure {
    Failure::usage(format_args!("{flag} needs a MySQL server to go with"))
}

fn is_server_in_environment() -> bool {
    std::env::var_os("UIDRING_MYSQL_URL").is_some()
}

/// A SQLite file, or the user's own in the data directory.
#[cfg(feature = "sqlite")]
fn file(path: Option<&Path>) -> Result<Box<dyn Database>, Failure> {
    Ok(Box::new(sqlite::file(path)?))
}

#[cfg(not(feature = "sqlite"))]
fn file(_: Option<&Path>) -> Result<Box<dyn Database>, Failure> {
    Err(Failure::NotBuilt { feature: "sqlite" })
}

/// The server that the flags name, else the environment.
#[cfg(feature = "mysql")]
fn server(args: &PlaceArgs) -> Result<Box<dyn Database>, Failure> {
    Ok(Box::new(mysql::server(args)?))
}

#[cfg(not(feature = "mysql"))]
fn server(_: &PlaceArgs) -> Result<Box<dyn Database>, Failure> {
    Err(Failure::NotBuilt { feature: "mysql" })
}
