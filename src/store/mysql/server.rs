//! Where a MySQL server is and how to get in.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::error::Error;

/// The environment variable with a server's URL.
const VARIABLE: &str = "UIDRING_MYSQL_URL";

/// A MySQL or MariaDB server and a database in it, by URL:
///
/// ```text
/// mysql://USER:PASSWORD@HOST:PORT/DATABASE
/// ```
///
/// The port may be left out (3306). Characters like `@ : / ? # %` in user, password and database
/// are percent-encoded. After a `?` may follow, among others of the driver, `socket=PATH` (a Unix
/// socket instead of host and port), `require_ssl=true` (TLS) and `verify_identity=false` (not the
/// host's name in the certificate).
///
/// Neither URL nor password appear in any text of this type or of its errors.
#[derive(Clone)]
pub struct MySqlServer {
    opts: Opts,
    connect_timeout: Duration,
    deadline: Duration,
}

impl MySqlServer {
    /// The server at this URL.
    ///
    /// # Errors
    ///
    /// [`Error::DatabaseUrl`], which does not repeat the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        check(url).map_err(|problem| Error::DatabaseUrl { place: "as given", problem })?;
        // What the driver says of a wrong URL may quote it.
        let wrong = "it has a part that the driver does not know or cannot read";
        let opts = Opts::from_url(url)
            .map_err(|_| Error::DatabaseUrl { place: "as given", problem: wrong })?;
        let opts = OptsBuilder::from_opts(opts)
            // What the driver would ask the server for otherwise, and connect a second time:
            // nothing here is large, or stays open for long.
            .prefer_socket(false)
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(3_600))
            .stmt_cache_size(0)
            .into();
        Ok(Self {
            opts,
            connect_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        })
    }

    /// The server whose URL is the first line of this file, which keeps it out of the list of
    /// processes.
    ///
    /// # Errors
    ///
    /// [`Error::DatabaseFile`] where the file cannot be read; [`Error::DatabaseUrl`].
    pub fn from_url_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| Error::DatabaseFile {
            what: "the URL of the database",
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        Self::from_url(text.lines().next().unwrap_or_default().trim())
            .map_err(|error| found(error, "in the file"))
    }

    /// The server whose URL is in the environment variable `UIDRING_MYSQL_URL`; `None` where the
    /// variable is not set, or empty.
    ///
    /// # Errors
    ///
    /// [`Error::DatabaseUrl`].
    pub fn from_env() -> Result<Option<Self>, Error> {
        let Some(url) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        Self::from_url(&url.to_string_lossy())
            .map(Some)
            .map_err(|error| found(error, "in UIDRING_MYSQL_URL"))
    }

    /// Demands TLS with a certificate that an authority of this PEM file has signed, and none of
    /// those that are known all over the world.
    ///
    /// # Errors
    ///
    /// [`Error::DatabaseFile`] where the file cannot be read or holds no certificate.
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let wrong = |problem: String| Error::DatabaseFile {
            what: "the certificate authority of the database",
            path: path.to_owned(),
            problem,
        };
        let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        if !pem.windows(22).any(|text| text == b"-----BEGIN CERTIFICATE") {
            return Err(wrong("it holds no certificate in PEM form".into()));
        }
        let ssl = self.opts.ssl_opts().cloned().unwrap_or_default();
        let ssl = ssl.with_root_certs(vec![pem.into()]).with_disable_built_in_roots(true);
        self.opts = OptsBuilder::from_opts(self.opts).ssl_opts(ssl).into();
        Ok(self)
    }

    /// Demands TLS, with a certificate of an authority that is known all over the world unless
    /// [`tls_authority`](Self::tls_authority) names another.
    #[must_use]
    pub fn require_tls(mut self) -> Self {
        let ssl: SslOpts = self.opts.ssl_opts().cloned().unwrap_or_default();
        self.opts = OptsBuilder::from_opts(self.opts).ssl_opts(ssl).into();
        self
    }

    /// How long one attempt to connect, name look-up and login included, may take; 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long an operation may take with all its attempts; 10 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(super) fn opts(&self) -> &Opts {
        &self.opts
    }

    pub(super) fn timeouts(&self) -> (Duration, Duration) {
        (self.connect_timeout, self.deadline)
    }

    pub(super) fn demands_tls(&self) -> bool {
        self.opts.ssl_opts().is_some()
    }

    pub(super) fn error(&self, problem: String) -> Error {
        Error::Database { server: self.to_string(), problem }
    }
}

/// Host, port and database.
impl fmt::Display for MySqlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opts.socket() {
            Some(socket) => write!(f, "{socket}")?,
            None => write!(f, "{}:{}", self.opts.ip_or_hostname(), self.opts.tcp_port())?,
        }
        write!(f, "/{}", self.opts.db_name().unwrap_or_default())
    }
}

/// The driver's options would print the password.
impl fmt::Debug for MySqlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlServer")
            .field("server", &format_args!("{self}"))
            .field("tls", &self.demands_tls())
            .field("connect_timeout", &self.connect_timeout)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Says where a wrong URL was found.
fn found(error: Error, place: &'static str) -> Error {
    match error {
        Error::DatabaseUrl { problem, .. } => Error::DatabaseUrl { place, problem },
        other => other,
    }
}

/// Finds the slips by which a part of the password would be taken for something else, and shown:
/// a character of it that should have been percent-encoded ends the part before it.
fn check(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("mysql://").ok_or("it does not begin with mysql://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if rest.contains('#') || rest.contains('@') || authority.matches('@').count() > 1 {
        return Err("a `@`, `/`, `?` or `#` in user or password is not percent-encoded");
    }
    if authority.rsplit('@').next().is_none_or(|host| host.is_empty() || host.starts_with(':')) {
        return Err("it names no host");
    }
    let path = rest.split('?').next().unwrap_or_default();
    match path.strip_prefix('/') {
        None | Some("") => Err("it names no database"),
        Some(path) if path.contains('/') => Err("its database has a `/`"),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::mysql::MySqlWorkerNodes;

    #[test]
    fn nothing_of_a_wrong_url_is_repeated() {
        for url in [
            "",
            "s3cret",
            "mysql://",
            "mysql://u:s3cret@",
            "mysql://u:s3cret@h",
            "mysql://u:s3cret@h/",
            "mysql://u:s3cret@:3306/d",
            "mysql://u:s3cret@h:port/d",
            "mysql://u:s3cret@h:99999/d",
            "mysql://u:s3cret@h/d/e",
            "mysql://u:s3cret@h/d?s3cret=1",
            "mysql://u:s3cret@h/d?require_ssl=s3cret",
            "mysql://u:s3cret@h/d#s3cret",
            "mysql://u:12/s3cret@h/d",
            "mysql://u:12?s3cret@h/d",
            "mysql://u:12#s3cret@h/d",
            "mysql://u:s3@s3cret@h/d",
            "postgres://u:s3cret@h/d",
        ] {
            let error = MySqlServer::from_url(url).expect_err(url);
            assert!(error.to_string().contains("mysql://USER:PASSWORD@HOST:PORT/DATABASE"));
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("s3cret"), "{text}");
            }
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let server = MySqlServer::from_url("mysql://root:s3cret%40%2F@db.example:3307/ids")
            .expect("a URL")
            .require_tls();
        assert_eq!(server.opts().pass(), Some("s3cret@/"));
        assert_eq!(server.to_string(), "db.example:3307/ids");
        for text in [format!("{server:?}"), format!("{:?}", MySqlWorkerNodes::new(server.clone()))]
        {
            assert!(text.contains("db.example:3307/ids") && text.contains("tls: true"), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_socket_stands_for_host_and_port() {
        let url = "mysql://root@localhost/ids?socket=%2Frun%2Fdb.sock";
        assert_eq!(MySqlServer::from_url(url).expect("a URL").to_string(), "/run/db.sock/ids");
    }
}
