//! What an engine's crate provides.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::problem::Failure;
use super::session::{Done, Session};
use super::settings::Inspected;
use super::tables::Table;
use super::url::ServerUrl;
use crate::options::{Given, Owner};
use crate::pem::{Authorities, ClientIdentity};
use crate::plain::Login;
use crate::url::Url;

/// How to reach the servers of an engine by its driver. `Display` and `Debug` show only hosts, ports and database: the
/// driver's options would show the user or the password.
pub trait Engine: Clone + Send + Sync + fmt::Debug + fmt::Display + 'static {
    /// The driver's options of a client.
    type Options: Clone + Send + Sync;

    /// A connection that is not yet checked.
    type Raw: Send;

    /// A connection whose server and tables are checked.
    type Session: Session<Failure = Self::Failure>;

    /// An error of the driver.
    type Failure: Failure;

    /// The server's common name.
    const NAME: &'static str;

    /// The form of its URLs.
    const URL: ServerUrl;

    /// The options of its URLs.
    const OPTIONS: &'static Owner;

    /// What else a statement may wait for, besides a locked table: empty, or ending in a comma and a blank.
    const MAY_WAIT_FOR: &'static str = "";

    /// The name of its threads.
    const THREAD: &'static str;

    /// Sets the driver's options from a URL, except for TLS.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the URL, without repeating it.
    fn new(url: &Url, given: &Given) -> Result<Self, String>;

    /// Requires TLS.
    fn require_tls(&mut self);

    /// Requires TLS and accepts any certificate.
    ///
    /// # Errors
    ///
    /// Says why this engine cannot.
    fn accept_any_certificate(&mut self) -> Result<(), String>;

    /// Trusts only these authorities.
    fn trust(&mut self, authorities: Authorities);

    /// Shows this certificate.
    fn show(&mut self, identity: ClientIdentity);

    /// Returns how a client sends its password.
    fn login(&self) -> Login;

    /// Returns what else is wrong with the options.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Returns what else to warn of before a connection.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns the options of a client for this purpose.
    fn options(&self, purpose: Purpose) -> Self::Options;

    /// Connects and logs in. Returns `None` if that takes longer than `within`.
    fn connect(
        options: &Self::Options,
        within: Duration,
    ) -> impl Future<Output = Done<Self::Session, Option<Self::Raw>>> + Send;

    /// Checks the server and its tables.
    fn inspect(
        &self,
        server: Inspected<'_>,
        raw: Self::Raw,
        table: &Table,
    ) -> impl Future<Output = Done<Self::Session, Self::Session>> + Send;

    /// Returns whether an idle connection still answers.
    fn answers(session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Closes a connection cleanly.
    fn close(session: Self::Session) -> impl Future<Output = ()> + Send;

    /// Returns what to do about a driver's error, and what went wrong unless the error says so.
    fn advice(&self, table: &Table, failure: &Self::Failure) -> String;
}

/// What a client is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// A few operations.
    Admin,
    /// Loads of segments.
    Loads,
    /// A lease. The server may close a connection that was silent for this long.
    Lease(Duration),
}
