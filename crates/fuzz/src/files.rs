//! Files of users: secrets, certificates and keys.

use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uidring_etcd::EtcdStore;
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_zookeeper::ZooKeeperServers;

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// Writes a file in the thread's temporary folder.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().expect("a folder"));
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("writes");
        path
    })
}

/// A file of certificates and a key. No error repeats one of its lines.
pub fn pem(bytes: &[u8]) {
    let path = file("pem", bytes);
    let path = path.as_path();
    let mysql = MySqlStore::from_url("mysql://u@h/d").expect("a URL");
    quiet(bytes, mysql.tls_authority(path));
    let postgres = PostgresStore::from_url("postgres://u@h/d").expect("a URL");
    let trusted = quiet(bytes, postgres.clone().tls_authority(path));
    quiet(bytes, postgres.tls_certificate(path, path));
    let etcd = EtcdStore::new("https://h").expect("an endpoint");
    quiet(bytes, etcd.clone().tls_authority(path));
    quiet(bytes, etcd.tls_client(path, path));
    // A trusted certificate must be in the file.
    assert!(!trusted || bytes.windows(11).any(|part| part == b"CERTIFICATE"));
}

/// A file whose first line is a URL, or user and password. It reads like that line, and no error repeats it.
pub fn secrets(bytes: &[u8]) {
    let path = file("secrets", bytes);
    let path: &Path = &path;
    let first = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let text = str::from_utf8(bytes).map(|text| first(text.trim_start_matches('\u{feff}')));
    let text = text.ok();
    let mysql = quiet(bytes, MySqlStore::from_url_file(path));
    assert_eq!(mysql, text.as_ref().is_some_and(|text| MySqlStore::from_url(text).is_ok()));
    let postgres = quiet(bytes, PostgresStore::from_url_file(path));
    assert_eq!(postgres, text.as_ref().is_some_and(|text| PostgresStore::from_url(text).is_ok()));
    let login = |text: &String| {
        text.split_once(':')
            .is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
    };
    let has_login = text.as_ref().is_some_and(login);
    let etcd = EtcdStore::new("h").expect("an endpoint");
    assert_eq!(quiet(bytes, etcd.auth_file(path)), has_login, "{text:?}");
    let zookeeper = ZooKeeperServers::new("h").expect("a host");
    assert_eq!(quiet(bytes, zookeeper.auth_file(path)), has_login, "{text:?}");
}

/// Returns whether it was read. If not, checks that the error repeats no line that may be secret.
fn quiet<T>(bytes: &[u8], read: Result<T, uidring::Error>) -> bool {
    let Err(error) = read else { return true };
    let (mut all, mut cause) = (String::new(), Some(&error as &dyn std::error::Error));
    while let Some(error) = cause {
        write!(all, " {error} {error:?}").expect("a string");
        cause = error.source();
    }
    for line in String::from_utf8_lossy(bytes).lines().map(str::trim) {
        // A short line may be a word of the error by chance, and so may a scheme. The lines around a key are not
        // secret.
        let is_scheme =
            line.split_once("://").is_some_and(|(_, rest)| !rest.contains(char::is_alphanumeric));
        let is_secret = line.len() >= 12 && !is_scheme && !line.starts_with('-');
        assert!(!is_secret || !all.contains(line), "{line:?} in {all}");
    }
    false
}
