//! Settings of a connection.

use std::time::Duration;

/// Settings of a connection.
///
/// ```no_run
/// use std::time::Duration;
/// use uidring_client::Options;
///
/// let client = Options::new()
///     .timeout(Duration::from_secs(1))
///     .password(std::fs::read_to_string("/run/secrets/uidring").expect("a secret").trim_end())
///     .connect_tcp("127.0.0.1:7610")?;
/// # Ok::<(), uidring_client::ClientError>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) timeout: Duration,
    pub(crate) password: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), password: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("password", &password)
            .finish()
    }
}

impl Options {
    /// Returns the defaults: a timeout of 10 seconds, and no password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long to wait for a connection, and for an answer, at least 1 ms.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the server's password, at most 255 bytes. It is sent in plain text, so use a private connection between
    /// hosts.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }
}
