//! Databases of a private server, and how the tests' helpers talk to it.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Opts, OptsBuilder};

use super::{LIMIT, MariaDb};

/// A database of a server, which stays up at least as long.
pub struct Database {
    server: Arc<MariaDb>,
    number: u32,
}

impl Database {
    pub fn new(server: &Arc<MariaDb>, number: u32) -> Self {
        let database = Self { server: Arc::clone(server), number };
        let (name, user) = (database.name(), database.user());
        server.execute(&format!("CREATE DATABASE {name}"));
        server.execute(&format!("CREATE USER {user} IDENTIFIED BY '{}'", database.password()));
        server.execute(&format!("GRANT ALL PRIVILEGES ON {name}.* TO {user}"));
        database
    }

    pub fn server(&self) -> &Arc<MariaDb> {
        &self.server
    }

    pub fn name(&self) -> String {
        format!("database_{}", self.number)
    }

    pub fn user(&self) -> String {
        format!("user_{}", self.number)
    }

    /// One that a URL can only hold encoded.
    pub fn password(&self) -> &'static str {
        "p@ss/w:rd#%?"
    }

    /// `mysql://user:password@127.0.0.1:port/name`.
    pub fn url(&self) -> String {
        self.url_at(&format!("127.0.0.1:{}", self.server.port()))
    }

    /// The same by another name or port, such as a proxy's.
    pub fn url_at(&self, address: &str) -> String {
        let password: String = self.password().bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("mysql://{}:{password}@{address}/{}", self.user(), self.name())
    }

    /// Executes a statement as the database's user, over TCP.
    pub fn execute(&self, sql: &str) {
        self.query::<mysql_async::Row>(sql);
    }

    /// The rows of a query of the user's; see [`MariaDb::query`].
    pub fn query<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        let opts = Opts::from_url(&self.url()).expect("a URL");
        // The driver would rather move to the socket, where clients are not of 127.0.0.1.
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
        query(opts, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

/// One session with one statement, at most as long as the limit.
pub fn query<T: FromRow + Send + 'static>(
    opts: OptsBuilder,
    limit: Duration,
    sql: &str,
) -> Result<Vec<T>, String> {
    // A server may be told not to commit by itself; the helpers' statements count in any case.
    let opts = opts.init(vec!["SET autocommit = 1"]);
    let session = async {
        let mut connection = Conn::new(opts).await?;
        let rows = connection.query(sql).await?;
        connection.disconnect().await?;
        Ok::<_, mysql_async::Error>(rows)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(async { tokio::time::timeout(limit, session).await })
    {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}
