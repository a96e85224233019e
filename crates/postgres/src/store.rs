//! The address of a PostgreSQL server, and the login.

mod options;
mod tls;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;
use uidring_store::options::{Given, Owner, TLS};
use uidring_store::pem::{Authorities, ClientIdentity};
use uidring_store::plain::Login;
use uidring_store::server::{
    Connector, Done, Engine, Problem, Purpose, ServerStore, ServerUrl, Session,
};
use uidring_store::url::Url;

use self::options::HostAddress;
use self::tls::TlsOptions;
use crate::driver::Raw;
use crate::failure::failed;
use crate::session;

/// A PostgreSQL server and a database in it, by URL:
///
/// ```text
/// postgres://USER:PASSWORD@HOST:PORT/DATABASE
/// ```
///
/// The default port is 5432. Percent-encode characters like `@ : / ? # %` in user, password and database. Of several
/// hosts, `HOST1:PORT1,HOST2:PORT2`, the first that accepts writes is used: the primary. Options follow after a `?`, as
/// `NAME=VALUE` separated by `&`; docs/options.md lists them. A URL with a password and another machine's host must say
/// `tls=verify` or `tls=off`. The latter logs a warning at each connection: anyone on the path gets the password.
pub type PostgresStore = ServerStore<Postgres>;

/// The engine of a [`PostgresStore`].
#[derive(Clone)]
pub struct Postgres {
    /// One for each host.
    hosts: Vec<Config>,
    /// Whether the URL says whether to use TLS.
    says_tls: bool,
    tls: TlsOptions,
    /// Made by the first connection, from these options.
    connector: OnceLock<MakeRustlsConnect>,
}

impl Engine for Postgres {
    const URL: ServerUrl = ServerUrl {
        form: "postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        schemes: &["postgres", "postgresql", "postgis"],
    };

    const OPTIONS: &'static Owner = &options::OWNER;

    fn new(url: &Url, given: &Given) -> Result<Self, String> {
        let mut config = Config::new();
        config.dbname(url.database()?).ssl_mode(SslMode::Disable).application_name("uidring");
        match &*url.user {
            "" => return Err("it names no user".into()),
            user => config.user(user),
        };
        if let Some(password) = &url.password {
            config.password(password);
        }
        match given.text(&options::CHANNEL_BINDING) {
            None => {}
            Some("disable") => drop(config.channel_binding(ChannelBinding::Disable)),
            Some("require") => drop(config.channel_binding(ChannelBinding::Require)),
            Some(_) => drop(config.channel_binding(ChannelBinding::Prefer)),
        }
        let hosts = options::hosts(url, given)?;
        if hosts.len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let at = |host: HostAddress| {
            let mut config = config.clone();
            config.host(&host.name).port(host.port);
            if let Some(address) = host.address {
                config.hostaddr(address);
            }
            config
        };
        let hosts = hosts.into_iter().map(at).collect();
        Ok(Self {
            hosts,
            says_tls: given.text(&TLS).is_some(),
            tls: TlsOptions::default(),
            connector: OnceLock::new(),
        })
    }

    fn require_tls(&mut self) {
        for host in &mut self.hosts {
            host.ssl_mode(SslMode::Require);
        }
    }

    fn accept_any_certificate(&mut self) -> Result<(), String> {
        Err("tls=unverified is not for PostgreSQL here: name the authority of its certificate with `ca`".into())
    }

    fn trust(&mut self, authorities: Authorities) {
        self.tls.trust(authorities);
    }

    fn show(&mut self, identity: ClientIdentity) {
        self.tls.show(identity);
    }
}

#[async_trait]
impl Connector for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn may_wait_for(&self) -> &'static str {
        "a synchronous standby away, "
    }

    fn login(&self) -> Login {
        let has_password =
            |config: &Config| config.get_password().is_some_and(|password| !password.is_empty());
        Login {
            has_password: self.hosts.iter().any(has_password),
            has_tls: self.demands_tls(),
            says_tls: self.says_tls,
            has_socket: self.hosts.iter().any(|host| machine(host).is_none()),
            hosts: self.hosts.iter().filter_map(machine).collect(),
        }
    }

    fn login_advice(&self) -> &'static str {
        match self.demands_tls() {
            true => {
                "the server does not let this user in: its pg_hba.conf lacks a line for it, or the server \
                 wants a client's certificate that names this user"
            }
            false => {
                "the server does not let this user in: its pg_hba.conf lacks a line for it, or demands TLS \
                 (tls=verify)"
            }
        }
    }

    /// Connects to all hosts at once, and returns the first connection that accepts writes. The driver would try one
    /// after the other, and an unreachable host could use up all the time.
    async fn connect(&self, _: Purpose, within: Duration) -> Done<Option<Box<dyn Session>>> {
        let new = || MakeRustlsConnect::new(self.tls.config(self.demands_tls()));
        let tls = self.connector.get_or_init(new);
        let mut attempts = JoinSet::new();
        for config in self.hosts.clone() {
            let tls = tls.clone();
            attempts.spawn(async move { Raw::connect(&config, tls).await });
        }
        let mut found: Option<Problem> = None;
        let connected = timeout(within, async {
            while let Some(attempt) = attempts.join_next().await {
                match attempt {
                    Ok(Ok(raw)) => return Some(raw),
                    // Keep a final error, such as a failed login, whatever the other hosts answer.
                    Ok(Err(_)) if found.as_ref().is_some_and(Problem::is_final) => {}
                    Ok(Err(error)) => found = Some(failed(error)),
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => resume_unwind(panic),
                        Err(_) => unreachable!("no attempt is aborted"),
                    },
                }
            }
            None
        });
        match (connected.await, found) {
            (Ok(None), Some(problem)) => Err(problem),
            (Err(_), Some(problem)) if problem.is_final() => Err(problem),
            (connected, _) => {
                let has_others = self.hosts.len() > 1;
                let session = |raw| Box::new(session::Session::new(raw, has_others)) as _;
                Ok(connected.unwrap_or_default().map(session))
            }
        }
    }
}

impl Postgres {
    fn demands_tls(&self) -> bool {
        self.hosts.iter().all(|host| host.get_ssl_mode() == SslMode::Require)
    }
}

/// Returns the machine of a host, by its address if given. `None` for a Unix socket.
fn machine(config: &Config) -> Option<String> {
    match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(address), _) => Some(address.to_string()),
        (None, Some(Host::Tcp(name))) => Some(name.clone()),
        _ => None,
    }
}

/// Like `Display`.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hosts, ports and database.
impl fmt::Display for Postgres {
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
            "postgres://u:s3cret@/d?host=h%0as3cret",
            "postgres://u:s3cret@/d?host=h,%20s3cret",
            "postgres://u:s3cret@h/d%0as3cret",
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
        assert_eq!(server.engine.hosts[0].get_password(), Some(&b"s3cret@/"[..]));
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
            ("postgres://u:p@h/d", "nothing is said of TLS: write tls=verify", "has no TLS"),
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
            for (text, words) in
                [(store.server().refusal(), refusal), (store.server().warning(), warning)]
            {
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
