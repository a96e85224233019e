//! Databases of a private server. Each has a user with all rights there and none elsewhere.

use std::sync::Arc;

use crate::server::{Kind, Server};

/// What each kind of server does its own way.
pub trait Databases: Kind {
    /// The beginning of its URLs.
    const SCHEME: &'static str;

    /// The end of URLs in a test network, whose servers have no TLS.
    const WITHOUT_TLS: &'static str;

    /// Creates the database and its user.
    fn make(database: &Database<Self>);

    /// Executes a statement as the database's user.
    fn execute(database: &Database<Self>, sql: &str);

    /// See [`Database::administer`].
    fn administer(database: &Database<Self>, sql: &str);

    /// See [`Database::column`].
    fn column(database: &Database<Self>, sql: &str) -> Vec<String>;

    /// See [`Database::session`].
    fn session(database: &Database<Self>) -> Box<dyn FnMut(&str)>;

    /// Returns the URL of an account with exactly the rights that a block of the docs grants.
    fn grant(database: &Database<Self>, page: &str, beginning: &str) -> String;

    /// Grants more rights to that account.
    fn grant_also(database: &Database<Self>, page: &str, beginning: &str);

    fn start_with(settings: &[&str]) -> Arc<Server<Self>>;

    fn shared() -> Arc<Server<Self>>;

    fn log_statements(server: &Server<Self>);

    fn statements(server: &Server<Self>) -> String;
}

impl<K: Databases> Server<K> {
    pub fn database(self: &Arc<Self>) -> Database<K> {
        let database = Database { server: Arc::clone(self), number: self.next_number() };
        K::make(&database);
        database
    }
}

/// A database. Its server stays up at least as long.
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

    /// Returns a password that needs encoding in a URL.
    pub fn password(&self) -> &'static str {
        "p@ss/w:rd#%?"
    }

    /// Returns the URL, such as `mysql://user:password@127.0.0.1:port/name`.
    pub fn url(&self) -> String {
        self.url_at(&self.server.address().to_string())
    }

    /// Returns the URL with another address, such as a proxy's.
    pub fn url_at(&self, address: &str) -> String {
        self.url_of(&self.user(), address)
    }

    /// Returns the URL for another user with the same password.
    pub fn url_of(&self, user: &str, address: &str) -> String {
        let password: String = self.password().bytes().map(|byte| format!("%{byte:02X}")).collect();
        let tls = if address.starts_with("10.") { K::WITHOUT_TLS } else { "" };
        format!("{}://{user}:{password}@{address}/{}{tls}", K::SCHEME, self.name())
    }

    /// Executes a statement over TCP as the database's user.
    pub fn execute(&self, sql: &str) {
        K::execute(self, sql);
    }

    /// Executes a statement in this database as the administrator.
    pub fn administer(&self, sql: &str) {
        K::administer(self, sql);
    }

    /// Opens a session of the user. The returned function executes statements in it; dropping it ends the session.
    pub fn session(&self) -> Box<dyn FnMut(&str)> {
        K::session(self)
    }

    /// Returns the single column of the user's query, as texts.
    pub fn column(&self, sql: &str) -> Vec<String> {
        K::column(self, sql)
    }
}
