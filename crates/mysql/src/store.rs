//! The address of a MySQL server, and the login.

mod options;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use tokio::time::timeout;
use uidring_store::choose_cryptography;
use uidring_store::options::{Given, Owner, TLS};
use uidring_store::pem::{Authorities, ClientIdentity};
use uidring_store::plain::Login;
use uidring_store::server::{Connector, Done, Engine, Purpose, ServerStore, ServerUrl, Session};
use uidring_store::url::Url;

use crate::failure::failed;
use crate::session;

/// A MySQL or MariaDB server and a database in it, by URL:
///
/// ```text
/// mysql://USER:PASSWORD@HOST:PORT/DATABASE
/// ```
///
/// The default port is 3306. Percent-encode characters like `@ : / ? # %` in user, password and database. Options
/// follow after a `?`, as `NAME=VALUE` separated by `&`; docs/options.md lists them. A URL with a password and another
/// machine's host must say `tls=verify` or `tls=off`. The latter logs a warning at each connection: anyone on the path
/// gets the password.
pub type MySqlStore = ServerStore<MySql>;

/// The engine of a [`MySqlStore`]: MySQL, MariaDB, and other servers with their protocol.
#[derive(Clone)]
pub struct MySql {
    opts: Opts,
    /// Whether the URL says whether to use TLS.
    says_tls: bool,
}

/// Overrides the server's isolation level. Some servers refuse to write below this level. Above it, a SELECT would lock
/// rows against other starts.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// Without autocommit, every statement would need a COMMIT. With another completion type, a COMMIT could end the
/// connection. With another limit, answers could be cut to a few rows.
const SESSION: &str = "SET SESSION autocommit = 1, SESSION completion_type = 'NO_CHAIN',
     SESSION sql_select_limit = 18446744073709551615, SESSION time_zone = '+00:00'";

/// How many seconds a load or lease waits for a locked row: the least that servers allow. Loads and renewals take
/// milliseconds; a longer lock should not hold up the rest.
const LOCK_WAIT: &str = ", SESSION innodb_lock_wait_timeout = 1";

/// How many prepared statements a lasting connection keeps.
const STATEMENTS: usize = 8;

impl Engine for MySql {
    const URL: ServerUrl = ServerUrl {
        form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        schemes: &["mysql", "mysql2", "mariadb", "trilogy"],
    };

    const OPTIONS: &'static Owner = &options::OWNER;

    fn new(url: &Url, given: &Given) -> Result<Self, String> {
        let socket = given.text(&options::SOCKET);
        let (host, port) = match (&url.hosts[..], socket) {
            ([host], _) => (&*host.name, host.port),
            ([], Some(_)) => ("localhost", None),
            ([], None) => return Err("it names no host".into()),
            _ => return Err("it names several hosts, and this engine takes one".into()),
        };
        let opts = OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port.unwrap_or(3_306))
            .socket(socket)
            .user(Some(&*url.user).filter(|user| !user.is_empty()))
            .pass(url.password.as_deref())
            .db_name(Some(url.database()?))
            .enable_cleartext_plugin(given.is(&options::CLEARTEXT, "yes"))
            // Otherwise the driver asks the server for these values, and may connect a second time. Nothing here is
            // large, or open for long.
            .prefer_socket(false)
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(3_600))
            .stmt_cache_size(0);
        Ok(Self { opts: opts.into(), says_tls: given.text(&TLS).is_some() })
    }

    fn require_tls(&mut self) {
        self.change_tls(|tls| tls);
    }

    fn accept_any_certificate(&mut self) -> Result<(), String> {
        self.change_tls(|tls| tls.with_danger_accept_invalid_certs(true));
        Ok(())
    }

    fn trust(&mut self, authorities: Authorities) {
        self.change_tls(|tls| {
            tls.with_root_certs(vec![authorities.pem.into()])
                .with_disable_built_in_roots(true)
                .with_danger_accept_invalid_certs(false)
        });
    }

    fn show(&mut self, identity: ClientIdentity) {
        let (chain, key) = (identity.chain_pem, identity.key_pem);
        let shown = mysql_async::ClientIdentity::new(chain.into(), key.into());
        self.change_tls(|tls| tls.with_client_identity(Some(shown)));
    }
}

#[async_trait]
impl Connector for MySql {
    fn name(&self) -> &'static str {
        "MySQL"
    }

    fn login(&self) -> Login {
        let has_socket = self.opts.socket().is_some();
        Login {
            has_password: self.opts.pass().is_some_and(|password| !password.is_empty()),
            has_tls: self.demands_tls(),
            says_tls: self.says_tls,
            has_socket,
            hosts: match has_socket {
                true => Vec::new(),
                false => vec![self.opts.ip_or_hostname().to_owned()],
            },
        }
    }

    fn refusal(&self) -> Option<String> {
        let is_clear = self.opts.enable_cleartext_plugin() && !self.demands_tls();
        (is_clear && self.opts.socket().is_none()).then(|| {
            "cleartext-password=yes sends the password in the clear: ask for TLS (tls=verify), or leave it out"
                .into()
        })
    }

    /// The driver encrypts the password for `caching_sha2_password` with any key that the peer sends. That cannot be
    /// turned off.
    fn warning(&self) -> Option<String> {
        let accepts_all = self.opts.ssl_opts().is_some_and(SslOpts::accept_invalid_certs);
        accepts_all.then(|| {
            "tls=unverified accepts any certificate: anyone on the path can read and change all, and get the \
             password; name the authority that signed the server's"
                .into()
        })
    }

    async fn connect(&self, purpose: Purpose, within: Duration) -> Done<Option<Box<dyn Session>>> {
        let conn = timeout(within, Conn::new(self.options(purpose))).await.ok().transpose();
        Ok(conn.map_err(failed)?.map(|conn| Box::new(session::Session::new(conn)) as _))
    }

    fn login_advice(&self) -> &'static str {
        match (self.shows_certificate(), self.demands_tls()) {
            (true, _) => {
                "the login failed; check user and password, percent-encoded in a URL, and whether the account \
                 demands another subject or issuer of the certificate"
            }
            (_, true) => {
                "the login failed; check user and password, percent-encoded in a URL; the account may also \
                 demand a client's certificate"
            }
            _ => {
                "the login failed; check user and password, percent-encoded in a URL; the account may \
                 also demand TLS"
            }
        }
    }
}

impl MySql {
    fn options(&self, purpose: Purpose) -> Opts {
        if self.demands_tls() {
            choose_cryptography();
        }
        let (lock_wait, statements) = match purpose {
            Purpose::Admin => ("", 0),
            Purpose::Loads | Purpose::Lease(_) => (LOCK_WAIT, STATEMENTS),
        };
        let mut session = format!("{SESSION}{lock_wait}");
        // While a server waits for a paused client, it keeps the client's locks. Limit that wait.
        if let Purpose::Lease(lasts) = purpose {
            let seconds = lasts.as_secs().clamp(1, 3_600);
            session.push_str(&format!(", SESSION wait_timeout = {seconds}"));
        }
        OptsBuilder::from_opts(self.opts.clone())
            .stmt_cache_size(statements)
            // Count matched rows, even if a change leaves them as they are.
            .client_found_rows(true)
            .init(vec![ISOLATION.into(), session])
            .into()
    }

    fn change_tls(&mut self, change: impl FnOnce(SslOpts) -> SslOpts) {
        let tls = self.opts.ssl_opts().cloned().unwrap_or_default();
        self.opts = OptsBuilder::from_opts(self.opts.clone()).ssl_opts(change(tls)).into();
    }

    fn demands_tls(&self) -> bool {
        self.opts.ssl_opts().is_some()
    }

    fn shows_certificate(&self) -> bool {
        self.opts.ssl_opts().is_some_and(|tls| tls.client_identity().is_some())
    }
}

/// Like `Display`.
impl fmt::Debug for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Host, port and database.
impl fmt::Display for MySql {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use uidring_store::{AnyStore, TableError};

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
        assert_eq!(server.engine.opts.pass(), Some("s3cret@/"));
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
            ("mysql://u:p@h/d", "nothing is said of TLS: write tls=verify", "has no TLS"),
            ("mysql://u:p@h/d?tls=off", "", "a connection to h has no TLS"),
            ("mysql://u:p@h/d?tls=verify", "", ""),
            ("mysql://u:p@h/d?tls=unverified", "", "tls=unverified accepts any"),
            ("mysql://u@h/d", "", ""),
            ("mysql://u:p@127.0.0.1/d", "", ""),
            ("mysql://u:p@[::1]/d", "", ""),
            ("mysql://u:p@h/d?socket=%2Fs", "", ""),
            ("mysql://u:p@127.0.0.1/d?cleartext-password=yes", "in the clear", ""),
            ("mysql://u:p@h/d?tls=off&cleartext-password=yes", "in the clear", "no TLS"),
            ("mysql://u:p@h/d?tls=verify&cleartext-password=yes", "", ""),
            ("mysql://u:p@h/d?socket=%2Fs&cleartext-password=yes", "", ""),
        ] {
            let store = MySqlStore::from_url(url).expect(url);
            for (text, words) in
                [(store.server().refusal(), refusal), (store.server().warning(), warning)]
            {
                assert_eq!(text.is_none(), words.is_empty(), "{url}: {text:?}");
                assert!(text.unwrap_or_default().contains(words), "{url}: {words}");
            }
            if !url.contains("socket") {
                let store = store.tls_authority(&path).expect("a certificate");
                assert_eq!(
                    (store.server().refusal(), store.server().warning()),
                    (None, None),
                    "{url}"
                );
            }
        }
    }

    #[test]
    fn a_url_says_what_the_builder_says() {
        let url =
            "mysql://u@h/d?deadline=30s&connect_timeout=2&durability=require&cluster=synchronous";
        let store = MySqlStore::from_url(url).expect("a URL");
        let settings = &store.settings;
        let limits =
            [settings.limits.connect, settings.limits.deadline].map(|limit| limit.as_secs());
        assert_eq!((limits, AnyStore::deadline(&store).as_secs()), ([2, 30], 30));
        assert!(settings.requires_durability && settings.is_cluster);
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
        let url = "mysql://root@h/d?tls=unverified";
        let server = MySqlStore::from_url(url).expect("a URL");
        assert!(server.engine.opts.ssl_opts().expect("TLS").accept_invalid_certs());
        let server = server.tls_authority(&path).expect("a certificate");
        let ssl = server.engine.opts.ssl_opts().expect("TLS");
        assert!(!ssl.accept_invalid_certs() && ssl.disable_built_in_roots());
    }
}
