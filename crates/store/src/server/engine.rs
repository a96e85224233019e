//! What an engine's crate provides.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::session::{Done, Session};
use super::url::ServerUrl;
use crate::options::{Given, Owner};
use crate::pem::{Authorities, ClientIdentity};
use crate::plain::Login;
use crate::url::Url;

/// An engine by its type: the form of its URLs, and how to set the driver's options. `Debug` shows no more than
/// `Display`.
pub trait Engine: Connector + Clone + fmt::Debug {
    /// The form of its URLs.
    const URL: ServerUrl;

    /// The options of its URLs.
    const OPTIONS: &'static Owner;

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
}

/// How to reach the servers of an engine by its driver. `Display` shows only hosts, ports and database: the driver's
/// options would show the user or the password.
#[async_trait]
pub trait Connector: Send + Sync + fmt::Display + 'static {
    /// The server's common name.
    fn name(&self) -> &'static str;

    /// What else a statement may wait for, besides a locked table: empty, or ending in a comma and a blank.
    fn may_wait_for(&self) -> &'static str {
        ""
    }

    /// Returns how a client sends its password.
    fn login(&self) -> Login;

    /// Returns what to do about a failed login.
    fn login_advice(&self) -> &'static str;

    /// Returns what else is wrong with the options.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Returns what else to warn of before a connection.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Connects and logs in. Returns `None` if that takes longer than `within`.
    async fn connect(&self, purpose: Purpose, within: Duration) -> Done<Option<Box<dyn Session>>>;
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
