//! Databases of a private server, and the sessions of the tests' helpers.

use std::sync::Arc;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Opts, OptsBuilder};

use super::query::query;
use super::{MariaDb, Settings};
use crate::database::{self, Databases};
use crate::docs;
use crate::server::LIMIT;

pub type Database = database::Database<Settings>;

impl Databases for Settings {
    const SCHEME: &'static str = "mysql";
    const WITHOUT_TLS: &'static str = "?tls=off";

    fn make(database: &Database) {
        let (server, name, user) = (database.server(), database.name(), database.user());
        server.execute(&format!("CREATE DATABASE {name}"));
        server.execute(&format!("CREATE USER {user} IDENTIFIED BY '{}'", database.password()));
        server.execute(&format!("GRANT ALL PRIVILEGES ON {name}.* TO {user}"));
    }

    fn execute(database: &Database, sql: &str) {
        database.query::<mysql_async::Row>(sql);
    }

    fn administer(database: &Database, sql: &str) {
        let administrator = database.server().administrator().db_name(Some(database.name()));
        query::<mysql_async::Row>(administrator, LIMIT, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn column(database: &Database, sql: &str) -> Vec<String> {
        database.query(sql)
    }

    fn session(database: &Database) -> Box<dyn FnMut(&str)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut connection = runtime.block_on(Conn::new(database.opts())).expect("connects");
        Box::new(move |sql| runtime.block_on(connection.query_drop(sql)).expect("executed"))
    }

    /// Revokes all other rights of the database's user.
    fn grant(database: &Database, page: &str, beginning: &str) -> String {
        let grantee = format!("{}@'%'", database.user());
        database.server().execute(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {grantee}"));
        Self::grant_also(database, page, beginning);
        database.url()
    }

    fn grant_also(database: &Database, page: &str, beginning: &str) {
        let (name, grantee) = (database.name(), format!("{}@'%'", database.user()));
        for grant in docs::block(page, beginning).split_terminator(";\n") {
            let grant = grant.replace("ids.", &format!("{name}."));
            database.server().execute(&grant.replace("'uidring'@'%'", &grantee));
        }
    }

    fn start_with(settings: &[&str]) -> Arc<MariaDb> {
        MariaDb::start_with(settings)
    }

    fn shared() -> Arc<MariaDb> {
        MariaDb::shared()
    }

    fn log_statements(server: &MariaDb) {
        server.log_statements();
    }

    fn statements(server: &MariaDb) -> String {
        server.statements()
    }
}

impl Database {
    /// Returns the rows of the user's query; see [`MariaDb::query`].
    pub fn query<T: FromRow + Send + 'static>(&self, sql: &str) -> Vec<T> {
        query(self.opts(), LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Without the socket, which the driver prefers: its clients do not come from 127.0.0.1.
    fn opts(&self) -> OptsBuilder {
        let opts = Opts::from_url(&self.url()).expect("a URL");
        OptsBuilder::from_opts(opts).prefer_socket(false)
    }
}
