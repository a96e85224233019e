//! Accounts of a real server that demand a client's certificate.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use uidring::{Error, StoreErrorKind};
use uidring_mysql::{MySqlError, MySqlStore};
use uidring_store::{TableError, WorkerTable};
use uidring_testkit::certificates::{Authority, Certificate};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};

fn use_it(store: &MySqlStore) -> Result<(), Error> {
    store.worker_nodes().create()
}

/// What the server refuses, and the advice.
fn refusal(store: &MySqlStore) -> (StoreErrorKind, String) {
    let error = use_it(store).expect_err("refused");
    let Some(MySqlError::Server { kind, .. }) = error.store() else { panic!("{error:?}") };
    (*kind, chain(&error))
}

/// What a file is refused for.
fn unusable(store: &MySqlStore, shown: &Certificate) -> String {
    let error = store.clone().tls_certificate(&shown.certificate, &shown.key).expect_err("refused");
    let Some(TableError::DatabaseFile { .. }) = error.store() else { panic!("{error:?}") };
    chain(&error)
}

fn demand(database: &Database, what: &str) {
    database.server().execute(&format!("ALTER USER {}@'%' REQUIRE {what}", database.user()));
}

#[test]
fn certificates_are_shown_where_accounts_demand_them() {
    let [ours, other] = [0; 2].map(|_| tempfile::tempdir().expect("a folder"));
    let [authority, others] = [&ours, &other].map(|folder| Authority::new(folder.path()));
    let arguments = authority.arguments(&authority.server());
    let server = MariaDb::start_with(&arguments.each_ref().map(String::as_str));
    let database = server.database();
    let store = MySqlStore::from_url(&database.url()).expect("a URL");
    let store = store.deadline(Duration::from_secs(10));
    let store = store.tls_authority(authority.certificate()).expect("a certificate");
    let with = |shown: &Certificate| {
        let store = store.clone().tls_certificate(&shown.certificate, &shown.key);
        store.expect("a certificate and its key")
    };
    let right = authority.client("right");

    demand(&database, "X509");
    use_it(&with(&right)).expect("let in");
    let (ca, cert, key) = (authority.certificate(), &right.certificate, &right.key);
    let [ca, cert, key] = [ca.display(), cert.display(), key.display()];
    let url = format!("{}?ca={ca}&ssl-cert={cert}&key={key}", database.url());
    use_it(&MySqlStore::from_url(&url).expect("a URL")).expect("let in");
    let (kind, text) = refusal(&store);
    assert!(kind == StoreErrorKind::Denied && text.contains("a client's certificate"), "{text}");

    demand(&database, "SUBJECT '/CN=right'");
    use_it(&with(&right)).expect("let in");
    let (kind, text) = refusal(&with(&authority.client("wrong")));
    assert!(kind == StoreErrorKind::Denied && text.contains("another subject"), "{text}");
    // The connection may break before the server has said why.
    use_it(&with(&others.client("right"))).expect_err("of an unknown authority");

    // The public authorities have not signed the server's.
    let public = MySqlStore::from_url(&database.url()).expect("a URL");
    let public = public.tls_certificate(&right.certificate, &right.key).expect("a pair");
    let (_, text) = refusal(&public);
    assert!(text.contains("name the authority"), "{text}");
}

#[test]
fn files_of_certificates_are_looked_at_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let [one, two] = [authority.client("one"), authority.client("two")];
    let store = MySqlStore::from_url("mysql://root@h/d").expect("a URL");
    let pair = |certificate: &Certificate, key: &Certificate| Certificate {
        certificate: certificate.certificate.clone(),
        key: key.key.clone(),
    };
    let text = unusable(&store, &pair(&one, &two));
    assert!(text.contains("key of another certificate") && text.contains("two.key"), "{text}");
    let swapped = Certificate { certificate: one.key.clone(), key: one.certificate.clone() };
    let text = unusable(&store, &swapped);
    assert!(text.contains("no certificate in PEM form"), "{text}");
    for (mode, remedy) in
        [(0o644, true), (0o604, true), (0o660, true), (0o600, false), (0o400, false)]
    {
        fs::set_permissions(&one.key, Permissions::from_mode(mode)).expect("ours");
        let shown = store.clone().tls_certificate(&one.certificate, &one.key);
        assert_eq!(shown.is_err(), remedy, "{mode:o}");
        if remedy {
            let text = unusable(&store, &one);
            assert!(text.contains(&format!("mode {mode:o}")) && text.contains("chmod 6"), "{text}");
        }
    }
    fs::write(&two.key, "s3cret").expect("writes");
    let text = unusable(&store, &two);
    assert!(text.contains("no private key") && !text.contains("s3cret"), "{text}");
    fs::write(
        &two.key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .expect("writes");
    let text = unusable(&store, &two);
    assert!(text.contains("is encrypted") && text.contains("openssl pkey"), "{text}");
    fs::remove_file(&one.key).expect("removed");
    let text = unusable(&store, &one);
    assert!(text.contains("one.key.pem") && text.contains("No such file"), "{text}");
}
