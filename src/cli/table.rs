//! Which table of worker ids the flags and the environment mean.

use std::time::Duration;

use uidring::store::WorkerTable;
use uidring::{MySqlServer, MySqlWorkerNodes, SqliteWorkerNodes};

use super::Failure;
use super::args::TableArgs;

impl TableArgs {
    /// The table that the flags name, if they name one.
    pub fn named(&self) -> Result<Option<Box<dyn WorkerTable>>, Failure> {
        let server = if let Some(path) = &self.sqlite {
            self.refuse_mysql_flags()?;
            return Ok(Some(Box::new(SqliteWorkerNodes::new(path))));
        } else if let Some(url) = &self.mysql {
            MySqlServer::from_url(url)?
        } else if let Some(path) = &self.mysql_url_file {
            MySqlServer::from_url_file(path)?
        } else {
            return Ok(None);
        };
        self.reach(server).map(Some)
    }

    /// Whether no flag names a table.
    pub fn is_unnamed(&self) -> bool {
        self.sqlite.is_none() && self.mysql.is_none() && self.mysql_url_file.is_none()
    }

    /// The table that the environment names, else the user's own file.
    pub fn unnamed(&self) -> Result<Box<dyn WorkerTable>, Failure> {
        match MySqlServer::from_env()? {
            Some(server) => self.reach(server),
            None => {
                self.refuse_mysql_flags()?;
                Ok(Box::new(SqliteWorkerNodes::in_data_directory()?))
            }
        }
    }

    /// The table that the flags name, else the environment, else the user's own file.
    pub fn any(&self) -> Result<Box<dyn WorkerTable>, Failure> {
        match self.named()? {
            Some(table) => Ok(table),
            None => self.unnamed(),
        }
    }

    fn reach(&self, server: MySqlServer) -> Result<Box<dyn WorkerTable>, Failure> {
        let server = server.deadline(Duration::from_secs(self.mysql_deadline));
        let server = match &self.mysql_ca {
            Some(path) => server.tls_authority(path)?,
            None => server,
        };
        let nodes = MySqlWorkerNodes::new(server);
        Ok(Box::new(match self.max_clock_difference {
            Some(limit) => nodes.max_clock_difference(limit),
            None => nodes,
        }))
    }

    /// A flag that would have no effect is a mistake, these ones dangerous ones.
    pub fn refuse_mysql_flags(&self) -> Result<(), Failure> {
        self.refuse_mysql_authority()?;
        match self.max_clock_difference {
            Some(_) => Err(needs_server("--max-clock-difference")),
            None => Ok(()),
        }
    }

    pub fn refuse_mysql_authority(&self) -> Result<(), Failure> {
        match self.mysql_ca {
            Some(_) => Err(needs_server("--mysql-ca")),
            None => Ok(()),
        }
    }
}

fn needs_server(flag: &str) -> Failure {
    Failure::usage(format_args!("{flag} needs a MySQL server to go with"))
}
