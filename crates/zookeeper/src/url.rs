//! The URL of a registry.

use std::time::Duration;

use uidring::Error;
use uidring_store::StoreKind;
use uidring_store::options::{
    AUTHORITY, CERTIFICATE, Given, KEY, Kind, Owner, Row, TLS, Tls, TlsMode,
};
use uidring_store::plain::{TLS_OFF, TLS_ON};
use uidring_store::url::{Host, Url};

use crate::leaf::CacheLocation;
use crate::registry::Outages;
use crate::{Instance, LeafZooKeeper, ZooKeeperServers};

const SECOND: Duration = Duration::from_secs(1);

static NAME: Row = Row::new(
    "name",
    Kind::Text,
    "The name of the registry (Leaf's `leaf.name`); it has to be given",
);

static SESSION_TIMEOUT: Row = Row::new(
    "session-timeout",
    Kind::Time(SECOND..=Duration::from_secs(3_600)),
    "How long the servers keep the name of an instance after they last heard from it",
)
.default("10s");

static MAX_OUTAGE: Row = Row::new(
    "max-outage",
    Kind::Time(SECOND..=Duration::from_secs(3_600)),
    "How long an instance goes on when the servers do not answer",
)
.default("nine tenths of the session");

static OUTAGES: Row = Row::new(
    "outages",
    Kind::Words(&["stop", "risk-repeats"]),
    "While the servers do not answer: `stop` after `max-outage`, or `risk-repeats`: start and go on with the cache file \
     alone, as Leaf does; uids repeat if the instance starts on another host meanwhile",
)
.default("stop");

static CACHE: Row = Row::new(
    "cache",
    Kind::Form { form: CACHE_FORM, check: |text| cache(text).map(|_| ()) },
    "The file that keeps other processes of this host from using the instance",
)
.default("uidring/leaf/NAME/INSTANCE@bounded.json in the data directory");

/// The format of the cache option.
const CACHE_FORM: &str = "an absolute path, or `none`";

static MAX_CLOCK_DIFFERENCE: Row = Row::new(
    "max-clock-difference",
    Kind::Time(Duration::ZERO..=Duration::from_secs(86_400)),
    "How far this host's clock may be from the median of the other instances' at the start",
)
.default("they are not compared");

static OPTIONS: Owner = Owner {
    name: "ZooKeeper",
    rows: &[
        &NAME,
        &TLS,
        &AUTHORITY,
        &CERTIFICATE,
        &KEY,
        &SESSION_TIMEOUT,
        &MAX_OUTAGE,
        &OUTAGES,
        &CACHE,
        &MAX_CLOCK_DIFFERENCE,
    ],
    harmless: &[],
    refused: &[
        ("password", "write it before the hosts: zookeeper://USER:PASSWORD@HOST"),
        ("user", "write it before the hosts: zookeeper://USER:PASSWORD@HOST"),
    ],
};

/// Opens registries from URLs. `UIDRING_INSTANCE` names the instance. Without it, the registry can only be inspected.
pub static KIND: StoreKind = StoreKind {
    options: &OPTIONS,
    schemes: &["zookeeper"],
    form: "zookeeper://USER:PASSWORD@HOST:PORT,HOST:PORT/CHROOT?name=NAME",
    is_file: false,
    has_own_workers: true,
    open: |url, given| {
        let instance = Instance::from_env()?;
        let is_named = instance.is_some();
        let instance = instance.map_or_else(|| Instance::new("unnamed"), Ok)?;
        Ok(Box::new(LeafZooKeeper { is_named, ..LeafZooKeeper::from_parts(url, given, instance)? }))
    },
};

impl LeafZooKeeper {
    /// Returns the registry at this URL, for this instance:
    ///
    /// ```text
    /// zookeeper://USER:PASSWORD@HOST:PORT,HOST:PORT/CHROOT?name=NAME
    /// ```
    ///
    /// User, password, ports (2181) and path are optional.
    /// [Options](https://docs.rs/crate/uidring/latest/source/docs/options.md) may follow after the name.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address), which does not repeat the URL; the errors of
    /// [`new`](Self::new), and of the files that the URL names.
    pub fn from_url(url: &str, instance: Instance) -> Result<Self, Error> {
        let (url, given) = KIND.read(url)?;
        Self::from_parts(&url, &given, instance)
    }

    fn from_parts(url: &Url, given: &Given, instance: Instance) -> Result<Self, Error> {
        let name = given.text(&NAME).ok_or_else(|| KIND.wrong("it has no `name`"))?;
        let mut servers = servers(url, Tls::of(given).map_err(|problem| KIND.wrong(problem))?)?;
        servers.session_timeout = given.time(&SESSION_TIMEOUT).unwrap_or(servers.session_timeout);
        let store = Self::new(servers, name, instance);
        let mut store = store.map_err(|error| KIND.wrong(error.to_string()))?;
        store.registry.outages = match given.time(&MAX_OUTAGE) {
            limit if !given.is(&OUTAGES, "risk-repeats") => Outages::Bounded(limit),
            None => Outages::Unbounded,
            Some(_) => return Err(KIND.wrong("`max-outage` is not for outages=risk-repeats")),
        };
        store.cache = given.text(&CACHE).and_then(|text| cache(text).ok()).unwrap_or(store.cache);
        store.max_clock_difference = given.time(&MAX_CLOCK_DIFFERENCE);
        Ok(store)
    }
}

/// Reads the value of [`CACHE`].
fn cache(text: &str) -> Result<CacheLocation, String> {
    match text {
        "none" => Ok(CacheLocation::None),
        _ if text.starts_with('/') && !text.contains(char::is_control) => {
            Ok(CacheLocation::At(text.into()))
        }
        _ => Err(format!("write {CACHE_FORM}")),
    }
}

fn servers(url: &Url, tls: Tls) -> Result<ZooKeeperServers, Error> {
    let scheme = match tls.mode {
        Some(TlsMode::Verify) => "tls://",
        Some(TlsMode::Unverified) => {
            return Err(
                KIND.wrong("tls=unverified is not for ZooKeeper: name the authority with `ca`")
            );
        }
        Some(TlsMode::Off) | None => "",
    };
    if url.hosts.is_empty() {
        return Err(KIND.wrong("it names no host"));
    }
    let host = |host: &Host| format!("{scheme}{}", host.with_port(2_181));
    let mut hosts = url.hosts.iter().map(host).collect::<Vec<_>>().join(",");
    if url.path.iter().any(|part| !part.is_empty()) {
        hosts = format!("{hosts}/{}", url.path.join("/"));
    }
    let mut servers = ZooKeeperServers::new(&hosts)?;
    servers.auth = url.credentials().map_err(|problem| KIND.wrong(problem))?;
    if let Some(problem) = servers.password(tls.mode.is_some()).refusal(TLS_ON, TLS_OFF) {
        return Err(KIND.wrong(problem));
    }
    #[cfg(feature = "tls")]
    {
        if let Some(path) = tls.authority {
            servers = servers.tls_authority(path)?;
        }
        if let Some((certificate, key)) = tls.identity {
            servers = servers.tls_certificate(certificate, key)?;
        }
    }
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(url: &str) -> Result<LeafZooKeeper, Error> {
        LeafZooKeeper::from_url(url, Instance::new("web-0").expect("a name"))
    }

    #[test]
    fn a_url_says_what_the_builder_says() {
        for (url, shown) in [
            ("zookeeper://h?name=shop", "h:2181/snowflake/shop"),
            ("zookeeper://a:1,[::1]/ids/x?name=shop", "a:1,[::1]:2181/ids/x/snowflake/shop"),
            ("zookeeper://u:s3cret@h/?name=shop&max-outage=2s&tls=off", "h:2181/snowflake/shop"),
        ] {
            let registry = read(url).expect(url);
            assert_eq!(registry.registry.to_string(), shown);
            assert!(!format!("{registry:?}").contains("s3cret"));
        }
        let registry = read("zookeeper://h?name=a&session-timeout=20s&max-clock-difference=1s");
        let registry = registry.expect("a URL");
        assert_eq!(registry.max_clock_difference, Some(SECOND));
        assert_eq!(registry.registry.servers.session_timeout, 20 * SECOND);
        let cache = |option: &str| {
            let registry = read(&format!("zookeeper://h?name=a{option}")).expect(option);
            (registry.cache, registry.registry.outages)
        };
        assert!(matches!(cache(""), (CacheLocation::DataDirectory, Outages::Bounded(_))));
        assert!(matches!(cache("&outages=stop&cache=none"), (CacheLocation::None, _)));
        let (at, outages) = cache("&outages=risk-repeats&cache=/run/ids/leaf.json");
        assert!(matches!(at, CacheLocation::At(path) if path == Path::new("/run/ids/leaf.json")));
        assert!(matches!(outages, Outages::Unbounded));
    }

    #[test]
    fn a_wrong_url_is_not_repeated() {
        for (url, problem) in [
            ("zookeeper://h", "it has no `name`"),
            ("zookeeper://?name=shop", "no host"),
            ("zookeeper://u:s3cret@h?name=a", "write tls=verify for TLS, or tls=off"),
            ("zookeeper://h?name=a/b", "it holds a slash"),
            ("zookeeper://u:12/s3cret@h?name=shop", "percent-encoded"),
            ("zookeeper://h?name=shop&tls=unverified", "name the authority"),
            ("zookeeper://h?name=shop&lease=5s", "ZooKeeper has no parameter `lease`"),
            ("zookeeper://h?name=shop&cache=a.json", "write an absolute path, or `none`"),
            ("zookeeper://h?name=shop&max-outage=5s&outages=risk-repeats", "is not for outages="),
            ("zk://s3cret", "does not begin with zookeeper://"),
        ] {
            let error = read(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(text.contains(problem) && !text.contains("s3cret"), "{url}: {text}");
        }
    }
}
