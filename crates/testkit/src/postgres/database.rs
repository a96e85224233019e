//! Databases of a private server.

use std::sync::Arc;

use tokio_postgres::NoTls;

use super::query::{Rows, query};
use super::{Postgres, Settings};
use crate::database::{self, Databases};
use crate::docs;
use crate::server::LIMIT;

pub type Database = database::Database<Settings>;

impl Databases for Settings {
    const SCHEME: &'static str = "postgres";
    const WITHOUT_TLS: &'static str = "?sslmode=disable";

    fn make(database: &Database) {
        let (server, name, user) = (database.server(), database.name(), database.user());
        server.execute(&format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", database.password()));
        server.execute(&format!("CREATE DATABASE {name} OWNER {user} TEMPLATE template0"));
    }

    fn execute(database: &Database, sql: &str) {
        database.query(sql);
    }

    fn administer(database: &Database, sql: &str) {
        let administrator = database.server().administrator(&database.name());
        query(&administrator, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn column(database: &Database, sql: &str) -> Vec<String> {
        database.query(sql).into_iter().flatten().collect()
    }

    fn session(database: &Database) -> Box<dyn FnMut(&str)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connect = async {
            let url = database.url();
            let (client, connection) =
                tokio_postgres::connect(&url, NoTls).await.expect("connects");
            tokio::spawn(connection);
            client
        };
        let client = runtime.block_on(connect);
        Box::new(move |sql| runtime.block_on(client.batch_execute(sql)).expect("executed"))
    }

    /// Uses another user, to whom nothing else is granted.
    fn grant(database: &Database, page: &str, beginning: &str) -> String {
        let user = limited(database);
        let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", database.password());
        database.server().execute(&create);
        Self::grant_also(database, page, beginning);
        database.url_of(&user, &database.server().address().to_string())
    }

    fn grant_also(database: &Database, page: &str, beginning: &str) {
        let user = limited(database);
        let grants = docs::block(page, beginning).replace("TO uidring", &format!("TO {user}"));
        database.administer(&grants);
    }

    fn start_with(settings: &[&str]) -> Arc<Postgres> {
        Postgres::start_with(settings)
    }

    fn shared() -> Arc<Postgres> {
        Postgres::shared()
    }

    fn log_statements(server: &Postgres) {
        server.log_statements();
    }

    fn statements(server: &Postgres) -> String {
        server.log()
    }
}

/// The user with limited rights.
fn limited(database: &Database) -> String {
    format!("{}_limited", database.user())
}

impl Database {
    /// Writes a backup with `pg_dump`.
    pub fn back_up(&self) {
        self.run("pg_dump", &["--format=custom", "--file=backup"]);
    }

    /// Restores the backup over the present tables.
    pub fn restore(&self) {
        self.run("pg_restore", &["--clean", "--if-exists", "backup"]);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let (port, name) = (self.server().port().to_string(), self.name());
        super::run(self.server().folder(), program, |command| {
            command.arg("--host").arg(self.server().socket());
            command.args(["--username=postgres", "--port", &port, "--dbname", &name]);
            command.args(arguments)
        });
    }

    /// Returns the rows of the user's query, as texts.
    pub fn query(&self, sql: &str) -> Rows {
        let config = self.url().parse().expect("a URL");
        query(&config, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}
