//! Databases of a private server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Postgres;
use super::query::{Rows, query};
use crate::docs;
use crate::server::LIMIT;

impl Postgres {
    /// A fresh database, and a user who may do anything there and nothing elsewhere.
    pub fn database(self: &Arc<Self>) -> Database {
        Database::new(self, self.databases.fetch_add(1, Ordering::Relaxed))
    }
}

/// A database of a server, which stays up at least as long.
pub struct Database {
    server: Arc<Postgres>,
    number: u32,
}

impl Database {
    fn new(server: &Arc<Postgres>, number: u32) -> Self {
        let database = Self { server: Arc::clone(server), number };
        let (name, user) = (database.name(), database.user());
        server.execute(&format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", database.password()));
        server.execute(&format!("CREATE DATABASE {name} OWNER {user} TEMPLATE template0"));
        database
    }

    pub fn server(&self) -> &Arc<Postgres> {
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

    /// `postgres://user:password@127.0.0.1:port/name`.
    pub fn url(&self) -> String {
        self.url_at(&format!("{}:{}", self.server.address(), self.server.port()))
    }

    /// The same by another name or port, such as a proxy's.
    pub fn url_at(&self, address: &str) -> String {
        self.url_of(&self.user(), address)
    }

    /// The same for another user with the same password.
    pub fn url_of(&self, user: &str, address: &str) -> String {
        let password: String = self.password().bytes().map(|byte| format!("%{byte:02X}")).collect();
        // In a network of a test's own.
        let tls = if address.starts_with("10.") { "?sslmode=disable" } else { "" };
        format!("postgres://{user}:{password}@{address}/{}{tls}", self.name())
    }

    /// The URL of another user, who may do what a block of the docs grants.
    pub fn grant_as_docs_say(&self, page: &str, beginning: &str) -> String {
        let user = format!("{}_limited", self.user());
        let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", self.password());
        self.server.execute(&create);
        self.administer(&docs::block(page, beginning).replace("TO uidring", &format!("TO {user}")));
        self.url_of(&user, &format!("127.0.0.1:{}", self.server.port()))
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
        let (port, name) = (self.server.port().to_string(), self.name());
        super::run(&self.server.folder, program, |command| {
            command.arg("--host").arg(self.server.socket());
            command.args(["--username=postgres", "--port", &port, "--dbname", &name]);
            command.args(arguments)
        });
    }

    /// Executes statements in this database as the administrator.
    pub fn administer(&self, sql: &str) -> Rows {
        let administrator = self.server.administrator(&self.name());
        query(&administrator, LIMIT, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Executes statements as the database's user, over TCP.
    pub fn execute(&self, sql: &str) {
        self.query(sql);
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
