//! Databases of a private server, and how the tests' helpers talk to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mysql_async::prelude::FromRow;
use mysql_async::{Opts, OptsBuilder};

use super::MariaDb;
use super::query::query;
use crate::docs;
use crate::server::LIMIT;

impl MariaDb {
    /// A fresh database, and a user who may do anything there and nothing elsewhere.
    pub fn database(self: &Arc<Self>) -> Database {
        Database::new(self, self.databases.fetch_add(1, Ordering::Relaxed))
    }
}

/// A database of a server, which stays up at least as long.
pub struct Database {
    server: Arc<MariaDb>,
    number: u32,
}

impl Database {
    fn new(server: &Arc<MariaDb>, number: u32) -> Self {
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
        // In a network of a test's own.
        let tls = if address.starts_with("10.") { "?require_ssl=false" } else { "" };
        format!("mysql://{}:{password}@{address}/{}{tls}", self.user(), self.name())
    }

    /// Takes all rights from the account, and grants what a block of the docs grants.
    pub fn grant_as_docs_say(&self, page: &str, beginning: &str) {
        let (name, grantee) = (self.name(), format!("{}@'%'", self.user()));
        self.server.execute(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {grantee}"));
        for grant in docs::block(page, beginning).split_terminator(";\n") {
            let grant = grant.replace("ids.", &format!("{name}."));
            self.server.execute(&grant.replace("'uidring'@'%'", &grantee));
        }
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
