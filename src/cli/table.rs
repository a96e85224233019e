//! Which table the flags and the environment mean.

use std::path::Path;
use std::time::Duration;

use uidring::store::{LeaseTable, SegmentTable, WorkerTable};
use uidring::{
    MySqlLeases, MySqlSegments, MySqlServer, MySqlWorkerNodes, SegmentStore, SqliteLeases,
    SqliteSegments, SqliteWorkerNodes,
};

use super::Failure;
use super::args::{PlaceArgs, TableArgs};

/// Where a table is.
pub enum Place<'a> {
    File(&'a Path),
    /// The user's own, in the data directory.
    OwnFile,
    Server(MySqlServer),
}

impl PlaceArgs {
    /// The place that the flags name, if they name one.
    fn named(&self) -> Result<Option<Place<'_>>, Failure> {
        let server = if let Some(path) = &self.sqlite {
            self.refuse_mysql_flags()?;
            return Ok(Some(Place::File(path)));
        } else if let Some(url) = &self.mysql {
            MySqlServer::from_url(url)?
        } else if let Some(path) = &self.mysql_url_file {
            MySqlServer::from_url_file(path)?
        } else {
            return Ok(None);
        };
        self.reach(server).map(Place::Server).map(Some)
    }

    /// Whether no flag names a place.
    pub fn is_unnamed(&self) -> bool {
        self.sqlite.is_none() && self.mysql.is_none() && self.mysql_url_file.is_none()
    }

    /// The place that the environment names, else the user's own file.
    fn unnamed(&self) -> Result<Place<'_>, Failure> {
        match MySqlServer::from_env()? {
            Some(server) => self.reach(server).map(Place::Server),
            None => self.refuse_mysql_flags().map(|()| Place::OwnFile),
        }
    }

    /// The place that the flags name, else the environment, else the user's own file.
    pub fn any(&self) -> Result<Place<'_>, Failure> {
        match self.named()? {
            Some(place) => Ok(place),
            None => self.unnamed(),
        }
    }

    fn reach(&self, server: MySqlServer) -> Result<MySqlServer, Failure> {
        let mut server = server.deadline(Duration::from_secs(self.mysql_deadline));
        if self.mysql_require_durability {
            server = server.require_durability();
        }
        if self.mysql_cluster {
            server = server.synchronous_cluster();
        }
        Ok(match &self.mysql_ca {
            Some(path) => server.tls_authority(path)?,
            None => server,
        })
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
}

impl Place<'_> {
    /// The table of leases that is there.
    pub fn lease_table(self) -> Result<Box<dyn LeaseTable>, Failure> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteLeases::new(path)),
            Self::OwnFile => Box::new(SqliteLeases::in_data_directory()?),
            Self::Server(server) => Box::new(MySqlLeases::new(server)),
        })
    }

    /// The table of tags that is there.
    pub fn segment_table(self) -> Result<Box<dyn SegmentTable>, Failure> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteSegments::new(path)),
            Self::OwnFile => Box::new(SqliteSegments::in_data_directory()?),
            Self::Server(server) => {
                Box::new(MySqlSegments::new(server).create_table_if_missing(true))
            }
        })
    }

    /// The same, to load segments from.
    pub fn segment_store(self) -> Result<Box<dyn SegmentStore>, Failure> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteSegments::new(path)),
            Self::OwnFile => Box::new(SqliteSegments::in_data_directory()?),
            Self::Server(server) => Box::new(MySqlSegments::new(server)),
        })
    }
}

impl TableArgs {
    /// The table that the flags name, if they name one.
    pub fn named(&self) -> Result<Option<Box<dyn WorkerTable>>, Failure> {
        self.place.named()?.map(|place| self.table(place)).transpose()
    }

    /// The table that the environment names, else the user's own file.
    pub fn unnamed(&self) -> Result<Box<dyn WorkerTable>, Failure> {
        self.table(self.place.unnamed()?)
    }

    /// The table that the flags name, else the environment, else the user's own file.
    pub fn any(&self) -> Result<Box<dyn WorkerTable>, Failure> {
        self.table(self.place.any()?)
    }

    /// A flag that would have no effect is a mistake, these ones dangerous ones.
    pub fn refuse_mysql_flags(&self) -> Result<(), Failure> {
        self.place.refuse_mysql_flags()?;
        if self.max_clock_difference.is_some() {
            return Err(needs_a_server("--max-clock-difference"));
        }
        Ok(())
    }

    fn table(&self, place: Place<'_>) -> Result<Box<dyn WorkerTable>, Failure> {
        let server = match place {
            Place::File(path) => {
                self.refuse_mysql_flags()?;
                return Ok(Box::new(SqliteWorkerNodes::new(path)));
            }
            Place::OwnFile => {
                self.refuse_mysql_flags()?;
                return Ok(Box::new(SqliteWorkerNodes::in_data_directory()?));
            }
            Place::Server(server) => server,
        };
        let nodes = MySqlWorkerNodes::new(server);
        Ok(Box::new(match self.max_clock_difference {
            Some(limit) => nodes.max_clock_difference(limit),
            None => nodes,
        }))
    }
}

fn needs_a_server(flag: &str) -> Failure {
    Failure::usage(format_args!("{flag} needs a MySQL server to go with"))
}
