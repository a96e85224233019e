//! What the crate of an engine says of it.

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

/// How the servers of an engine are reached, by its driver. Its texts, for
/// debugging too, are hosts, ports and database alone: the driver's options would print the user or the password.
pub trait Engine: Clone + Send + Sync + fmt::Debug + fmt::Display + 'static {
    /// How a client connects.
    type Options: Clone + Send + Sync;

    /// A connection that was not checked yet.
    type Raw: Send;

    /// A connection whose server and tables are known to be good.
    type Session: Session<Failure = Self::Failure>;

    /// An error of the driver.
    type Failure: Failure;

    /// What people call such a server.
    const NAME: &'static str;

    /// How its URLs are written.
    const URL: ServerUrl;

    /// The options of its URLs.
    const OPTIONS: &'static Owner;

    /// What a statement may wait for beside a locked table: empty, or ending in a comma and a blank.
    const MAY_WAIT_FOR: &'static str = "";

    /// The name of threads that work for it.
    const THREAD: &'static str;

    /// Fills the driver's options from a URL, except for TLS.
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

    /// Trusts these authorities alone.
    fn trust(&mut self, authorities: Authorities);

    /// Shows this certificate.
    fn show(&mut self, identity: ClientIdentity);

    /// Returns how a client logs in.
    fn login(&self) -> Login;

    /// Returns what else is wrong with the options.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Returns what else to know before a connection is made.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns the options of a client for this.
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

    /// Returns whether a connection that was idle still answers.
    fn answers(session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Closes a connection cleanly.
    fn close(session: Self::Session) -> impl Future<Output = ()> + Send;

    /// Returns what to do about an error of the driver, and what went wrong unless the error says it.
    fn advice(&self, table: &Table, failure: &Self::Failure) -> String;
}

/// What a client is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// A few works.
    Admin,
    /// Loads of segments.
    Loads,
    /// A lease, whose connection may end when nothing was heard of it for so long.
    Lease(Duration),
}
