//! Databases of a private server, and how the tests' helpers talk to it.

use mysql_async::prelude::FromRow;
use mysql_async::{Opts, OptsBuilder};

use super::Settings;
use super::query::query;
use crate::database::{self, Databases};
use crate::docs;
use crate::server::LIMIT;

pub type Database = database::Database<Settings>;

impl Databases for Settings {
    const SCHEME: &'static str = "mysql";
    const WITHOUT_TLS: &'static str = "?require_ssl=false";

    fn make(database: &Database) {
        let (server, name, user) = (database.server(), database.name(), database.user());
        server.execute(&format!("CREATE DATABASE {name}"));
        server.execute(&format!("CREATE USER {user} IDENTIFIED BY '{}'", database.password()));
        server.execute(&format!("GRANT ALL PRIVILEGES ON {name}.* TO {user}"));
    }

    fn execute(database: &Database, sql: &str) {
        database.query::<mysql_async::Row>(sql);
    }
}

impl Database {
    /// Takes all rights from the account, and grants what a block of the docs grants.
    pub fn grant_as_docs_say(&self, page: &str, beginning: &str) {
        let (name, grantee) = (self.name(), format!("{}@'%'", self.user()));
        self.server().execute(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {grantee}"));
        for grant in docs::block(page, beginning).split_terminator(";\n") {
            let grant = grant.replace("ids.", &format!("{name}."));
            self.server().execute(&grant.replace("'uidring'@'%'", &grantee));
        }
    }

    /// The rows of a query of the user's; see [`MariaDb::query`].
    pub fn query<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        let opts = Opts::from_url(&self.url()).expect("a URL");
        // The driver would rather move to the socket, where clients are not of 127.0.0.1.
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
        query(opts, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}
