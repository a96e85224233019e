//! Where a PostgreSQL server is and how to get in.

mod tls;
mod url;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustls::ClientConfig;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use uidring::Error;
use uidring_store::plain;
use uidring_store::server::{ServerUrl, Settings};

use self::tls::TlsOptions;

const URL: ServerUrl = ServerUrl {
    form: "postgres://USER:PASSWORD@HOST:PORT/DATABASE",
    variable: "UIDRING_POSTGRES_URL",
    in_variable: "in UIDRING_POSTGRES_URL",
};

/// A PostgreSQL server and a database in it, by URL:
///
/// ```text
/// postgres://USER:PASSWORD@HOST:PORT/DATABASE
/// ```
///
/// The port may be left out (5432). Characters like `@ : / ? # %` in user, password and database
/// are percent-encoded. Of several hosts, `HOST1:PORT1,HOST2:PORT2`, the first that takes rows is used:
/// the primary. After a `?` may follow, separated by `&` and with their values percent-encoded:
///
/// | parameter | meaning |
/// |---|---|
/// | `host=FOLDER` | the folder of a Unix socket, instead of a host |
/// | `sslmode` | `require`, `verify-ca`, `verify-full`, which here are one: TLS, with a certificate that is signed by an authority and names the host; or `disable`, which a URL with a password and another machine's host has to say, and which then logs a warning at each connection |
/// | `sslrootcert=FILE` | as [`tls_authority`](Self::tls_authority) |
/// | `sslcert=FILE`, `sslkey=FILE` | as [`tls_certificate`](Self::tls_certificate) |
/// | `channel_binding`, `application_name`, `keepalives…` | as libpq has them |
///
/// Neither URL nor password appear in any text of this type or of its errors.
#[derive(Clone)]
pub struct PostgresStore {
    /// One for each host.
    pub(crate) hosts: Vec<Config>,
    /// Whether the URL says that there is TLS, or none.
    says_tls: bool,
    tls: TlsOptions,
    pub(crate) settings: Settings,
}

impl PostgresStore {
    /// The server at this URL.
    ///
    /// # Errors
    ///
    /// [`PostgresError::DatabaseUrl`](crate::PostgresError::DatabaseUrl), which does not repeat the URL;
    /// those of the files that the URL names.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let parts = url::read(url).map_err(|problem| URL.wrong(problem))?;
        let mut store = Self {
            hosts: parts.hosts,
            says_tls: parts.requires_tls.is_some(),
            tls: TlsOptions::default(),
            settings: Settings::default(),
        };
        if parts.requires_tls == Some(true) {
            store = store.require_tls();
        }
        if let Some(path) = parts.authority {
            store = store.tls_authority(path)?;
        }
        if let Some((certificate, key)) = parts.certificate {
            store = store.tls_certificate(certificate, key)?;
        }
        Ok(store)
    }

    /// The server whose URL is the first line of this file, which keeps it out of the list of
    /// processes.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) where the file cannot
    /// be read; [`PostgresError::DatabaseUrl`](crate::PostgresError::DatabaseUrl);
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath) where the path is the URL
    /// itself.
    pub fn from_url_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        URL.in_file(path.as_ref(), Self::from_url)
    }

    /// The server whose URL is in the environment variable `UIDRING_POSTGRES_URL`; `None` where the
    /// variable is not set.
    ///
    /// # Errors
    ///
    /// [`PostgresError::DatabaseUrl`](crate::PostgresError::DatabaseUrl), for an empty variable too: who
    /// sets it means a server, and worker ids from elsewhere may be in use there.
    pub fn from_env() -> Result<Option<Self>, Error> {
        URL.in_env(Self::from_url)
    }

    /// Requires TLS with a certificate signed by an authority in this PEM file, and by no other.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) where the file cannot
    /// be read, holds no certificate, or a broken one;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.tls.trust(path.as_ref())?;
        Ok(self.require_tls())
    }

    /// Requires TLS, and shows the server this certificate, with those that sign it, and proves it by this
    /// private key; both are PEM files.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) where a file cannot be read,
    /// holds nothing of the kind, or the key is that of another certificate, or others may read it: 600 is
    /// the most that its mode may allow, or 640 if it is root's;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn tls_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.tls.show(certificate.as_ref(), key.as_ref())?;
        Ok(self.require_tls())
    }

    /// Requires TLS, with a certificate of an authority that this system trusts unless
    /// [`tls_authority`](Self::tls_authority) names another.
    #[must_use]
    pub fn require_tls(mut self) -> Self {
        for host in &mut self.hosts {
            host.ssl_mode(SslMode::Require);
        }
        self
    }

    /// How long one attempt to connect, name look-up and login included, may take; 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.connect = timeout;
        self
    }

    /// How long an operation may take with all its attempts; 10 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.limits.deadline = deadline;
        self
    }

    /// Refuses a server that may lose confirmed commits when its machine crashes; by default it logs a
    /// warning once. A start, a renewal and a load each look when they connect: at `fsync`, at
    /// `full_page_writes`, and for tables that are not logged. `synchronous_commit` needs no look: every
    /// transaction sets it for itself.
    ///
    /// Segments are then also refused from another server than the one that the generator began
    /// with, unless this is a [`synchronous_cluster`](Self::synchronous_cluster).
    #[must_use]
    pub fn require_durability(mut self) -> Self {
        self.settings.requires_durability = true;
        self
    }

    /// Declares that whichever server answers has all that another one has confirmed: the primary has
    /// synchronous standbys, and only one of them is ever promoted. By default a lease is lost, and a load
    /// of a segment warns, when another server answers than before, or one that was promoted meanwhile: it
    /// may be a standby that lags behind.
    #[must_use]
    pub fn synchronous_cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    /// What is wrong with the options.
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.demands_tls() && self.has_socket() {
            return Some(plain::SOCKET_WITH_TLS.into());
        }
        self.login().refusal("sslmode=require", "sslmode=disable")
    }

    /// What to know before each connection, if anybody else can get the password.
    pub(crate) fn warning(&self) -> Option<String> {
        self.login().warning()
    }

    fn login(&self) -> plain::Login {
        let has_password =
            |config: &Config| config.get_password().is_some_and(|password| !password.is_empty());
        plain::Login {
            has_password: self.hosts.iter().any(has_password),
            has_tls: self.demands_tls(),
            says_tls: self.says_tls,
            hosts: self.hosts.iter().filter_map(machine).collect(),
        }
    }

    pub(crate) fn has_socket(&self) -> bool {
        self.hosts.iter().any(|host| machine(host).is_none())
    }

    /// Whether a server that takes no rows may be passed over for another.
    pub(crate) fn has_others(&self) -> bool {
        self.hosts.len() > 1
    }

    pub(crate) fn demands_tls(&self) -> bool {
        self.hosts.iter().all(|host| host.get_ssl_mode() == SslMode::Require)
    }

    pub(crate) fn tls_config(&self) -> ClientConfig {
        self.tls.config(self.demands_tls())
    }
}

/// Returns the machine of a host, by its address if that is given; `None` for a Unix socket.
fn machine(config: &Config) -> Option<String> {
    match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(address), _) => Some(address.to_string()),
        (None, Some(Host::Tcp(name))) => Some(name.clone()),
        _ => None,
    }
}

/// Hosts, ports and database.
impl fmt::Display for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, config) in self.hosts.iter().enumerate() {
            let port = config.get_ports().first().copied().unwrap_or(5_432);
            let comma = if index == 0 { "" } else { "," };
            match config.get_hosts().first() {
                Some(Host::Tcp(host)) if host.contains(':') => write!(f, "{comma}[{host}]:{port}")?,
                Some(Host::Tcp(host)) => write!(f, "{comma}{host}:{port}")?,
                #[cfg(unix)]
                Some(Host::Unix(folder)) => write!(f, "{comma}{}:{port}", folder.display())?,
                None => write!(f, "{comma}{}:{port}", machine(config).unwrap_or_default())?,
            }
        }
        let database = self.hosts.first().and_then(Config::get_dbname);
        write!(f, "/{}", database.unwrap_or_default())
    }
}

/// The driver's options would print the user.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.debug(f, "PostgresStore", self, self.demands_tls())
    }
}

#[cfg(test)]
mod tests {
    use uidring_store::TableError;

    use super::*;

    #[test]
    fn a_wrong_url_is_not_repeated() {
        for url in [
            "",
            "s3cret",
            "postgres://u:s3cret@/d",
            "postgres://u:s3cret@h",
            "postgres://u:s3cret@h/d/e",
            "postgres://u:s3cret@h/d?s3cret=1",
            "postgres://u:s3cret@h/d?sslmode=s3cret",
            "postgres://u:s3cret@h/d#s3cret",
            "postgres://u:12/s3cret@h/d",
            "postgres://u:12?s3cret@h/d",
            "postgres://u:s3@s3cret@h/d",
            "postgres://u@h:s3cret/d",
            "mysql://u:s3cret@h/d",
        ] {
            let error = PostgresStore::from_url(url).expect_err(url);
            assert!(error.to_string().contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"));
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("s3cret"), "{text}");
            }
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let url = "postgres://root:s3cret%40%2F@db.example:5433/ids";
        let server = PostgresStore::from_url(url).expect("a URL").require_tls();
        assert_eq!(server.hosts[0].get_password(), Some(&b"s3cret@/"[..]));
        assert_eq!(server.to_string(), "db.example:5433/ids");
        for text in [format!("{server:?}"), format!("{:?}", server.worker_nodes())] {
            assert!(text.contains("db.example:5433/ids") && text.contains("tls: true"), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn sockets_several_hosts_and_addresses_of_version_6_are_shown() {
        for (url, text) in [
            ("postgres://u@%2Frun%2Fpg/ids", "/run/pg:5432/ids"),
            ("postgresql://u@/ids?host=/run/pg&port=5433", "/run/pg:5433/ids"),
            ("postgres://u@a:1,b/ids", "a:1,b:5432/ids"),
            ("postgres://u@[::1]:3307/ids", "[::1]:3307/ids"),
        ] {
            assert_eq!(PostgresStore::from_url(url).expect(url).to_string(), text);
        }
    }

    #[test]
    fn a_password_goes_to_another_machine_with_tls_or_where_the_url_says_so() {
        for (url, refusal, warning) in [
            ("postgres://u:p@h/d", "nothing is said of TLS: write sslmode=require", "has no TLS"),
            ("postgres://u:p@localhost,h/d", "sent to h", "has no TLS"),
            ("postgres://u:p@localhost/d?hostaddr=10.0.0.1", "sent to 10.0.0.1", "has no TLS"),
            ("postgres://u:p@h/d?hostaddr=127.0.0.1", "", ""),
            ("postgres://u:p@h/d?sslmode=disable", "", "a connection to h has no TLS"),
            ("postgres://u:p@h/d?sslmode=require", "", ""),
            ("postgres://u@h/d", "", ""),
            ("postgres://u:p@127.0.0.1,[::1],localhost/d", "", ""),
            ("postgres://u:p@%2Frun/d", "", ""),
            ("postgres://u:p@%2Frun/d?sslmode=require", "a Unix socket has none", ""),
        ] {
            let store = PostgresStore::from_url(url).expect(url);
            for (text, words) in [(store.refusal(), refusal), (store.warning(), warning)] {
                assert_eq!(text.is_none(), words.is_empty(), "{url}: {text:?}");
                assert!(text.unwrap_or_default().contains(words), "{url}: {words}");
            }
        }
    }

    #[test]
    fn a_url_is_no_path_and_is_not_repeated() {
        let url = "postgres://root:s3cret@h/d";
        let server = PostgresStore::from_url("postgres://root@h/d").expect("a URL");
        for error in [
            PostgresStore::from_url_file(url).expect_err("no path"),
            server.clone().tls_authority(url).expect_err("no path"),
            server.tls_certificate(url, url).expect_err("no path"),
        ] {
            assert!(matches!(error.store(), Some(TableError::UrlForPath { .. })), "{error:?}");
            let text = format!("{error} {error:?}");
            assert!(text.contains("not a path") && !text.contains("s3cret"), "{text}");
        }
    }
}
