//! Where a MySQL server is and how to get in.

mod url;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder, SslOpts};
use uidring::Error;
use uidring_store::pem::{Authorities, ClientIdentity};
use uidring_store::plain;
use uidring_store::server::{ServerUrl, Settings};

const URL: ServerUrl = ServerUrl {
    form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE",
    variable: "UIDRING_MYSQL_URL",
    in_variable: "in UIDRING_MYSQL_URL",
};

/// A MySQL or MariaDB server and a database in it, by URL:
///
/// ```text
/// mysql://USER:PASSWORD@HOST:PORT/DATABASE
/// ```
///
/// The port may be left out (3306). Characters like `@ : / ? # %` in user, password and database
/// are percent-encoded. After a `?` may follow, among others of the driver, `socket=PATH` (a Unix
/// socket instead of host and port) and `require_ssl=true` (TLS). A URL with a password and another machine's
/// host has to say `require_ssl=true`, or `require_ssl=false`, which logs a warning at each connection: whoever
/// is in between gets the password. With `verify_ca=false` any certificate is accepted: TLS then protects
/// nothing, which logs a warning, too. [`tls_authority`](Self::tls_authority) overrides it.
///
/// Neither URL nor password appear in any text of this type or of its errors.
#[derive(Clone)]
pub struct MySqlStore {
    pub(crate) opts: Opts,
    /// Whether the URL says that there is TLS, or none.
    says_tls: bool,
    pub(crate) settings: Settings,
}

impl MySqlStore {
    /// The server at this URL.
    ///
    /// # Errors
    ///
    /// [`MySqlError::DatabaseUrl`](crate::MySqlError::DatabaseUrl), which does not repeat the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let (opts, says_tls) = url::read(url).map_err(|problem| URL.wrong(problem))?;
        Ok(Self { opts, says_tls, settings: Settings::default() })
    }

    /// The server whose URL is the first line of this file, which keeps it out of the list of
    /// processes.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) where the file cannot
    /// be read; [`MySqlError::DatabaseUrl`](crate::MySqlError::DatabaseUrl);
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath) where the path is the URL
    /// itself.
    pub fn from_url_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        URL.in_file(path.as_ref(), Self::from_url)
    }

    /// The server whose URL is in the environment variable `UIDRING_MYSQL_URL`; `None` where the
    /// variable is not set.
    ///
    /// # Errors
    ///
    /// [`MySqlError::DatabaseUrl`](crate::MySqlError::DatabaseUrl), for an empty variable too: who
    /// sets it means a server, and worker ids from elsewhere may be in use there.
    pub fn from_env() -> Result<Option<Self>, Error> {
        URL.in_env(Self::from_url)
    }

    /// Requires TLS with a certificate signed by an authority in this PEM file. Public authorities are not
    /// accepted, whatever the URL says.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) where the file cannot
    /// be read, holds no certificate, or a broken one;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let authorities = Authorities::read(path.as_ref())?;
        let ssl = self.opts.ssl_opts().cloned().unwrap_or_default();
        let ssl = ssl
            .with_root_certs(vec![authorities.pem.into()])
            .with_disable_built_in_roots(true)
            .with_danger_accept_invalid_certs(false);
        self.opts = OptsBuilder::from_opts(self.opts).ssl_opts(ssl).into();
        Ok(self)
    }

    /// Requires TLS, and shows the server this certificate, with those that sign it, and proves it by this
    /// private key; both are PEM files. Accounts that are made with `REQUIRE X509`, `ISSUER` or `SUBJECT`
    /// need one.
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
        let identity = ClientIdentity::read(certificate.as_ref(), key.as_ref())?;
        let shown =
            mysql_async::ClientIdentity::new(identity.chain_pem.into(), identity.key_pem.into());
        let ssl = self.opts.ssl_opts().cloned().unwrap_or_default();
        let ssl = ssl.with_client_identity(Some(shown));
        self.opts = OptsBuilder::from_opts(self.opts).ssl_opts(ssl).into();
        Ok(self)
    }

    /// Requires TLS, with a certificate of a public authority unless [`tls_authority`](Self::tls_authority)
    /// names another.
    #[must_use]
    pub fn require_tls(mut self) -> Self {
        let ssl: SslOpts = self.opts.ssl_opts().cloned().unwrap_or_default();
        self.opts = OptsBuilder::from_opts(self.opts).ssl_opts(ssl).into();
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
    /// warning once. A start, a renewal and a load each look when they connect: at
    /// `sync_binlog`, where the binary log is on, at `innodb_flush_log_at_trx_commit`, at the engine of the
    /// tables, and for a node of a Galera cluster, which confirms what the other nodes may not have written.
    ///
    /// Segments are then also refused from another server than the one that the generator began
    /// with, unless this is a [`synchronous_cluster`](Self::synchronous_cluster).
    #[must_use]
    pub fn require_durability(mut self) -> Self {
        self.settings.requires_durability = true;
        self
    }

    /// Declares that the address leads to several servers, none of which confirms a commit that the
    /// others may lack: synchronous replication, for one. By default a lease is lost, and a load of a
    /// segment warns, when another server (`server_uuid`, MariaDB's `server_uid`) answers than
    /// before: it may be a replica that lags behind.
    #[must_use]
    pub fn synchronous_cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    /// What is wrong with the options.
    pub(crate) fn refusal(&self) -> Option<String> {
        match (self.demands_tls(), self.is_socket()) {
            // The driver would go without TLS, and say nothing.
            (true, true) => Some(plain::SOCKET_WITH_TLS.into()),
            (false, false) if self.opts.enable_cleartext_plugin() => Some(
                "enable_cleartext_plugin=true sends the password in the clear: ask for TLS \
                 (require_ssl=true), or leave it out"
                    .into(),
            ),
            _ => self.login().refusal("require_ssl=true", "require_ssl=false"),
        }
    }

    /// What to know before each connection, if anybody else can get the password.
    ///
    /// The driver encrypts it for `caching_sha2_password` by whatever key the other side sends, and cannot be told
    /// not to.
    pub(crate) fn warning(&self) -> Option<String> {
        let accepts_all = |ssl: &SslOpts| ssl.accept_invalid_certs();
        if self.opts.ssl_opts().is_some_and(accepts_all) {
            return Some(
                "verify_ca=false accepts any certificate: anyone on the path can read and change all, and \
                 get the password; name the authority that signed the server's"
                    .into(),
            );
        }
        self.login().warning()
    }

    fn login(&self) -> plain::Login {
        plain::Login {
            has_password: self.opts.pass().is_some_and(|password| !password.is_empty()),
            has_tls: self.demands_tls(),
            says_tls: self.says_tls,
            hosts: match self.is_socket() {
                true => Vec::new(),
                false => vec![self.opts.ip_or_hostname().to_owned()],
            },
        }
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.opts.socket().is_some()
    }

    pub(crate) fn demands_tls(&self) -> bool {
        self.opts.ssl_opts().is_some()
    }

    pub(crate) fn shows_certificate(&self) -> bool {
        self.opts.ssl_opts().is_some_and(|ssl| ssl.client_identity().is_some())
    }
}

/// Host, port and database.
impl fmt::Display for MySqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opts.socket() {
            Some(socket) => write!(f, "{socket}")?,
            None => match self.opts.ip_or_hostname() {
                host if host.contains(':') => write!(f, "[{host}]:{}", self.opts.tcp_port())?,
                host => write!(f, "{host}:{}", self.opts.tcp_port())?,
            },
        }
        write!(f, "/{}", self.opts.db_name().unwrap_or_default())
    }
}

/// The driver's options would print the password.
impl fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.debug(f, "MySqlStore", self, self.demands_tls())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uidring_store::TableError;

    use super::*;

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
            "mysql://u:s3cret@h/d?verify_identity=s3cret",
            "postgres://u:s3cret@h/d",
        ] {
            let error = MySqlStore::from_url(url).expect_err(url);
            assert!(error.to_string().contains("mysql://USER:PASSWORD@HOST:PORT/DATABASE"));
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("s3cret"), "{text}");
            }
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let server = MySqlStore::from_url("mysql://root:s3cret%40%2F@db.example:3307/ids")
            .expect("a URL")
            .require_tls();
        assert_eq!(server.opts.pass(), Some("s3cret@/"));
        assert_eq!(server.to_string(), "db.example:3307/ids");
        for text in [format!("{server:?}"), format!("{:?}", server.worker_nodes())] {
            assert!(text.contains("db.example:3307/ids") && text.contains("tls: true"), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_password_goes_to_another_machine_with_tls_or_where_the_url_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(["h".to_owned()]).expect("a certificate");
        fs::write(&path, signed.cert.pem()).expect("writes");
        for (url, refusal, warning) in [
            ("mysql://u:p@h/d", "nothing is said of TLS: write require_ssl=true", "has no TLS"),
            ("mysql://u:p@h/d?require_ssl=false", "", "a connection to h has no TLS"),
            ("mysql://u:p@h/d?require_ssl=true", "", ""),
            ("mysql://u:p@h/d?require_ssl=true&verify_ca=false", "", "verify_ca=false accepts any"),
            ("mysql://u@h/d", "", ""),
            ("mysql://u:p@127.0.0.1/d", "", ""),
            ("mysql://u:p@[::1]/d", "", ""),
            ("mysql://u:p@h/d?socket=%2Fs", "", ""),
            ("mysql://u:p@127.0.0.1/d?enable_cleartext_plugin=true", "in the clear", ""),
            (
                "mysql://u:p@h/d?require_ssl=false&enable_cleartext_plugin=true",
                "in the clear",
                "no TLS",
            ),
            ("mysql://u:p@h/d?require_ssl=true&enable_cleartext_plugin=true", "", ""),
            ("mysql://u:p@h/d?socket=%2Fs&enable_cleartext_plugin=true", "", ""),
        ] {
            let store = MySqlStore::from_url(url).expect(url);
            for (text, words) in [(store.refusal(), refusal), (store.warning(), warning)] {
                assert_eq!(text.is_none(), words.is_empty(), "{url}: {text:?}");
                assert!(text.unwrap_or_default().contains(words), "{url}: {words}");
            }
            if !url.contains("socket") {
                let store = store.tls_authority(&path).expect("a certificate");
                assert_eq!((store.refusal(), store.warning()), (None, None), "{url}");
            }
        }
    }

    #[test]
    fn a_socket_stands_for_host_and_port() {
        let url = "mysql://root@localhost/ids?socket=%2Frun%2Fdb.sock";
        assert_eq!(MySqlStore::from_url(url).expect("a URL").to_string(), "/run/db.sock/ids");
    }

    #[test]
    fn an_address_of_version_6_is_shown_in_brackets() {
        let server = MySqlStore::from_url("mysql://root@[::1]:3307/ids").expect("a URL");
        assert_eq!(server.to_string(), "[::1]:3307/ids");
    }

    #[test]
    fn a_url_is_no_path_and_is_not_repeated() {
        let url = "mysql://root:s3cret@h/d";
        let server = MySqlStore::from_url("mysql://root@h/d").expect("a URL");
        for error in [
            MySqlStore::from_url_file(url).expect_err("no path"),
            server.clone().tls_authority(url).expect_err("no path"),
            server.tls_certificate(url, url).expect_err("no path"),
        ] {
            assert!(matches!(error.store(), Some(TableError::UrlForPath { .. })), "{error:?}");
            let text = format!("{error} {error:?}");
            assert!(text.contains("not a path") && !text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_file_holds_the_url_in_its_first_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("url");
        let read = |text: &str| {
            fs::write(&path, text).expect("writes");
            MySqlStore::from_url_file(&path).map(|server| server.to_string())
        };
        for text in ["mysql://u:p@h/d", " mysql://u:p@h/d \r\nmore", "\u{feff}mysql://u:p@h/d\n"] {
            assert_eq!(read(text).expect("a URL"), "h:3306/d");
        }
        for text in ["", "\n \n", "\u{feff}"] {
            let error = read(text).expect_err("empty").to_string();
            assert!(error.contains("the file is empty"), "{error}");
        }
    }

    #[test]
    fn an_authority_overrides_that_any_certificate_will_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(["h".to_owned()]).expect("a certificate");
        fs::write(&path, signed.cert.pem()).expect("writes");
        let url = "mysql://root@h/d?require_ssl=true&verify_ca=false";
        let server = MySqlStore::from_url(url).expect("a URL");
        assert!(server.opts.ssl_opts().expect("TLS").accept_invalid_certs());
        let server = server.tls_authority(&path).expect("a certificate");
        let ssl = server.opts.ssl_opts().expect("TLS");
        assert!(!ssl.accept_invalid_certs() && ssl.disable_built_in_roots());
    }
}
