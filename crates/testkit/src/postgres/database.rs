//! Databases of a private server.

use super::Settings;
use super::query::{Rows, query};
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
}

impl Database {
    /// The URL of another user, who may do what a block of the docs grants.
    pub fn grant_as_docs_say(&self, page: &str, beginning: &str) -> String {
        let user = format!("{}_limited", self.user());
        let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", self.password());
        self.server().execute(&create);
        self.administer(&docs::block(page, beginning).replace("TO uidring", &format!("TO {user}")));
        self.url_of(&user, &format!("127.0.0.1:{}", self.server().port()))
    }

    /// Writes a backup with `pg_dump`.
    pub fn back_up(&self) {
        self.run("pg_dump", &["--format=custom", "--file=backup"]);
    }

    /// Puts the backup back, over the tables as they are.
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

    /// Executes statements in this database as the administrator.
    pub fn administer(&self, sql: &str) -> Rows {
        let administrator = self.server().administrator(&self.name());
        query(&administrator, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The rows of the user's query, as texts.
    pub fn query(&self, sql: &str) -> Rows {
        let config = self.url().parse().expect("a URL");
        query(&config, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The only column of the user's query.
    pub fn column(&self, sql: &str) -> Vec<String> {
        self.query(sql).into_iter().flatten().collect()
    }
}
