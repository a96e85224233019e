//! The URL of a cluster.

use uidring::Error;
use uidring_store::StoreKind;
use uidring_store::options::{
    AUTHORITY, CERTIFICATE, DEADLINE, Given, KEY, Owner, TLS, Tls, TlsMode,
};
use uidring_store::plain::{TLS_OFF, TLS_ON};
use uidring_store::url::{Host, Url};

use crate::EtcdStore;

static OPTIONS: Owner = Owner {
    name: "etcd",
    rows: &[&TLS, &AUTHORITY, &CERTIFICATE, &KEY, &DEADLINE],
    harmless: &[],
    refused: &[
        ("password", "write it before the hosts: etcd://USER:PASSWORD@HOST"),
        ("user", "write it before the hosts: etcd://USER:PASSWORD@HOST"),
    ],
};

/// Opens etcd stores from URLs.
pub static KIND: StoreKind = StoreKind {
    options: &OPTIONS,
    schemes: &["etcd"],
    form: "etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX",
    is_file: false,
    has_own_workers: false,
    open: |url, given| {
        let store = EtcdStore::from_parts(url, given)?;
        match store.password().refusal(TLS_ON, TLS_OFF) {
            Some(problem) => Err(KIND.wrong(problem)),
            None => Ok(Box::new(store)),
        }
    },
};

impl EtcdStore {
    /// Returns the cluster at this URL:
    ///
    /// ```text
    /// etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX
    /// ```
    ///
    /// User, password, ports (2379) and prefix (`/uidring/`) are optional.
    /// [Options](https://docs.rs/crate/uidring/latest/source/docs/options.md) may follow after a `?`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address), which does not repeat the URL; the errors of
    /// [`prefix`](Self::prefix), and of the files that the URL names.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let (url, given) = KIND.read(url)?;
        Self::from_parts(&url, &given)
    }

    fn from_parts(url: &Url, given: &Given) -> Result<Self, Error> {
        let tls = Tls::of(given).map_err(|problem| KIND.wrong(problem))?;
        let scheme = match tls.mode {
            Some(TlsMode::Verify) => "https://",
            Some(TlsMode::Unverified) => {
                return Err(
                    KIND.wrong("tls=unverified is not for etcd: name the authority with `ca`")
                );
            }
            Some(TlsMode::Off) => "http://",
            None => "",
        };
        if url.hosts.is_empty() {
            return Err(KIND.wrong("it names no host"));
        }
        let endpoint = |host: &Host| format!("{scheme}{}", host.with_port(2_379));
        let endpoints: Vec<_> = url.hosts.iter().map(endpoint).collect();
        let mut store = Self::new(&endpoints.join(","))?;
        store.login = url.credentials().map_err(|problem| KIND.wrong(problem))?;
        if url.path.iter().any(|part| !part.is_empty()) {
            // Do not show the prefix: it may be the end of a password.
            store = store.prefix(&format!("/{}", url.path.join("/"))).map_err(|_| {
                KIND.wrong(
                    "its prefix has a blank, a character that is not printable ASCII, or a part `nodes` or `leases`, \
                     which are keys of a store",
                )
            })?;
        }
        if let Some(path) = tls.authority {
            store = store.tls_authority(path)?;
        }
        if let Some((certificate, key)) = tls.identity {
            store = store.tls_client(certificate, key)?;
        }
        store.deadline = given.time(&DEADLINE).unwrap_or(store.deadline);
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_what_the_builder_says() {
        for (url, shown) in [
            ("etcd://h", "h:2379 /uidring/"),
            ("etcd://a:1,[::1]/shop/ids", "a:1,[::1]:2379 /shop/ids/"),
            ("etcd://h/?tls=verify", "https://h:2379 /uidring/"),
        ] {
            assert_eq!(EtcdStore::from_url(url).expect(url).to_string(), shown);
        }
        let store =
            EtcdStore::from_url("etcd://u:s3cret%40@h:1/?tls=off&deadline=3s").expect("a URL");
        let login = store.login.as_ref().map(|login| (&*login.user, &*login.password));
        assert_eq!(login, Some(("u", "s3cret@")));
        assert_eq!(store.deadline.as_secs(), 3);
        assert!(!format!("{store} {store:?}").contains("s3cret"));
        // The URL has no TLS option.
        let store = EtcdStore::from_url("etcd://u:p@h").expect("a URL");
        let refused = store.check().expect_err("refused").to_string();
        assert!(refused.contains("nothing is said of TLS"), "{refused}");
    }

    #[test]
    fn a_wrong_url_is_not_repeated() {
        for (url, problem) in [
            ("etcd://", "no host"),
            ("etcd://u:12/s3cret@h", "percent-encoded"),
            ("etcd://h?tls=unverified", "name the authority"),
            ("etcd://h?password=s3cret", "before the hosts"),
            ("etcd://s3cret@h", "no password"),
            ("etcd://h/s3cret%0B", "not printable ASCII"),
            ("etcd://:s3cret@h", "no user"),
            ("etcd://u%3As3cret:p@h", "a `:`"),
            ("etcd://h?s3cret=1", "etcd has no parameter"),
            ("http://s3cret", "does not begin with etcd://"),
            ("etcd://h%2Fs3cret", "a character that a host cannot have"),
        ] {
            let error = EtcdStore::from_url(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(text.contains(problem) && !text.contains("s3cret"), "{url}: {text}");
        }
    }
}
