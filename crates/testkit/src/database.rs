//! Databases of a private server, each with a user who may do anything there and nothing elsewhere.

use std::sync::Arc;

use crate::server::{Kind, Server};

/// What differs between databases of different servers.
pub trait Databases: Kind {
    /// What their URLs begin with.
    const SCHEME: &'static str;

    /// What URLs end with in a network of a test's own, whose servers have no TLS.
    const WITHOUT_TLS: &'static str;

    /// Makes one, and its user.
    fn make(database: &Database<Self>);

    /// Executes a statement there as its user.
    fn execute(database: &Database<Self>, sql: &str);

    /// See [`Database::administer`].
    fn administer(database: &Database<Self>, sql: &str);

    /// See [`Database::column`].
    fn column(database: &Database<Self>, sql: &str) -> Vec<String>;

    /// See [`Database::session`].
    fn session(database: &Database<Self>) -> Box<dyn FnMut(&str)>;

    /// Returns the URL of an account that may do what a block of the docs grants, and no more.
    fn grant(database: &Database<Self>, page: &str, beginning: &str) -> String;

    /// Grants that account more.
    fn grant_also(database: &Database<Self>, page: &str, beginning: &str);

    /// Starts a server with more settings.
    fn start_with(settings: &[&str]) -> Arc<Server<Self>>;

    /// Returns the server that this binary's tests share.
    fn shared() -> Arc<Server<Self>>;

    /// Has a server note all statements from now on.
    fn log_statements(server: &Server<Self>);

    /// Returns what it noted.
    fn statements(server: &Server<Self>) -> String;
}

impl<K: Databases> Server<K> {
    /// A fresh database.
    pub fn database(self: &Arc<Self>) -> Database<K> {
        let database = Database { server: Arc::clone(self), number: self.next_number() };
        K::make(&database);
        database
    }
}

/// A database of a server, which stays up at least as long.
pub struct Database<K: Kind> {
    server: Arc<Server<K>>,
    number: u32,
}

impl<K: Databases> Database<K> {
    pub fn server(&self) -> &Arc<Server<K>> {
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

    /// Such as `mysql://user:password@127.0.0.1:port/name`.
    pub fn url(&self) -> String {
        self.url_at(&self.server.address().to_string())
    }

    /// The same by another name or port, such as a proxy's.
    pub fn url_at(&self, address: &str) -> String {
        self.url_of(&self.user(), address)
    }

    /// The same for another user with the same password.
    pub fn url_of(&self, user: &str, address: &str) -> String {
        let password: String = self.password().bytes().map(|byte| format!("%{byte:02X}")).collect();
        let tls = if address.starts_with("10.") { K::WITHOUT_TLS } else { "" };
        format!("{}://{user}:{password}@{address}/{}{tls}", K::SCHEME, self.name())
    }

    /// Executes a statement as the database's user, over TCP.
    pub fn execute(&self, sql: &str) {
        K::execute(self, sql);
    }

    /// Executes a statement as the administrator, in this database.
    pub fn administer(&self, sql: &str) {
        K::administer(self, sql);
    }

    /// Opens a session of the user's, which ends with what is returned and executes the statements that it is
    /// called with.
    pub fn session(&self) -> Box<dyn FnMut(&str)> {
        K::session(self)
    }

    /// The only column of a query of the user's, as texts.
    pub fn column(&self, sql: &str) -> Vec<String> {
        K::column(self, sql)
    }
}
