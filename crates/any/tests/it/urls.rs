//! What a URL may say, and what an error says of a wrong one.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use uidring_any::{AnyGenerator, Options, OtherGenerator, open};
use uidring_testkit::child::this_test;

#[test]
fn a_wrong_url_or_option_is_an_error_without_the_url() {
    for (url, problem) in [
        ("", "it is empty; write a URL such as sqlite:PATH"),
        ("s3cret", "begins with none of sqlite:, mysql://"),
        ("redis://u:s3cret@h", "begins with none of"),
        ("jdbc:mysql://h/d?password=s3cret", "leave out `jdbc:`"),
        ("sqlite://s3cret.db", "write sqlite:PATH"),
        ("worker:", "no whole number"),
        ("worker:-1", "no whole number"),
        ("worker:s3cret", "no whole number"),
        ("worker:32/0", "datacenter id"),
        ("worker:1/2/3", "no whole number"),
        ("worker://7", "no `//` follows after worker:; write worker:N"),
        ("worker:-1", "write worker:N, or worker:D/W"),
        ("worker:1/32", "write worker:N, or worker:D/W"),
        ("worker:7?on-clock-back=new-worker-id", "is for worker=disposable, and not for worker:N"),
        ("worker:7?deadline=5s", "no parameter `deadline`; it is an option of MySQL"),
        ("zookeeper://h?name=n&leas=5s", "no parameter `leas`; the nearest is `tls`"),
        ("sqlite+pysqlite:////s3cret.db", "leave it out; write sqlite:"),
        ("jdbc:sqlite:/s3cret.db", "leave out `jdbc:`"),
        (
            "mysql://u@h/d?max-clock-difference=5s&tag=t",
            "for worker=disposable, and not for generator=segment",
        ),
        (
            "mysql://u@h/d?max-clock-difference=5s&worker=lease",
            "for worker=disposable, and not for worker=lease",
        ),
        ("mysql://u@h/d?worker=ordinal", "worker ids of ordinals"),
        ("worker:7?layout=s3cret", "the value of `layout`: write `uid`"),
        ("worker:7?take=s3cret", "the value of `take`: write `wait`, `fail`, or a time"),
        ("worker:7?boost-power=17", "from 1 to 16"),
        ("worker:7?boost=3", "worker:N has no parameter `boost`; the nearest is `boost-power`"),
        ("worker:7?tls=off", "worker:N has no parameter `tls`"),
        ("worker:7?layout=uid&layout=uid", "given twice"),
        ("worker:7?tag=s3cret&generator=cached", "`tag` is not for generator=cached"),
        (
            "worker:7?generator=clock&boost-power=3",
            "`boost-power` is not for generators on the clock",
        ),
        ("worker:7?generator=clock&on-clock-back=stay-ahead", "`on-clock-back` is not for"),
        ("worker:7?worker=lease", "`worker` is not for worker:N"),
        ("worker:7?lease=30s", "`lease` is not for worker:N"),
        ("worker:7?tag=orders", "it names a worker id, and no store"),
        ("sqlite:/a.db?generator=segment", "needs a `tag`"),
        ("sqlite:/a.db?tag=t&layout=uid", "`layout` is not for generator=segment"),
        ("sqlite:/a.db?tag=t&worker=lease", "`worker` is not for generator=segment"),
        ("sqlite:/a.db?worker=disposable&lease=30s", "`lease` is not for worker=disposable"),
        ("sqlite:/a.db?ordinal-offset=7&worker=lease", "`ordinal-offset` is not for worker=lease"),
        ("sqlite:/a.db?deadline=5s", "SQLite has no parameter `deadline`"),
        ("mysql://u:s3cret@h", "no database"),
        ("etcd://h?tag=t", "has worker ids and leases, and no segments"),
    ] {
        let error = open(url).map(|_| ()).expect_err(url);
        let text = format!("{error} {error:?}");
        assert!(text.contains(problem) && !text.contains("s3cret"), "{url}: {text}");
    }
}

#[test]
fn a_worker_id_has_to_fit_the_layout() {
    let error =
        open("worker:1024?layout=snowflake").map(|_| ()).expect_err("too large").to_string();
    assert!(error.contains("1024") && error.contains("1023"), "{error}");
    let generator = open("worker:3/7?generator=snowflake").expect("a node");
    let uid = generator.next_uid().expect("a uid");
    assert_eq!(generator.decode(uid).expect("decodes").worker_id, 3 << 5 | 7);
}

#[test]
fn code_adds_options_and_cannot_contradict_the_url() {
    let options = || Options::from_url("worker:9?layout=31/10/22").expect("a URL");
    let error = options().set("layout", "uid").map(|_| ()).expect_err("twice").to_string();
    assert!(error.contains("`layout` is given twice"), "{error}");
    let generator = options().set("generator", "clock").expect("an option").open().expect("opens");
    assert!(matches!(generator, AnyGenerator::Other(OtherGenerator::Clocked(_))));
    let last = generator.next_uid().expect("a uid");
    drop(generator);
    let next = options().start_after(last).open().expect("opens").next_uid().expect("a uid");
    assert!(next > last);
    let options = Options::from_url("sqlite:/a.db").expect("a URL").start_after(last);
    let error = options.open().map(|_| ()).expect_err("has a memory").to_string();
    assert!(error.contains("are for worker:N: a store knows what was issued"), "{error}");
}

#[test]
fn a_file_holds_a_url_in_its_first_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("url");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("writes");
        Options::from_file(&path).map(|_| ())
    };
    read("worker:7?layout=uid\n# a comment\n").expect("a URL");
    for (text, problem) in [
        ("", "it is empty"),
        ("mysql://u:s3cret@h/d?ca=ca.pem", "the path of `ca` is relative"),
        ("mysql://u:s3cret@h/d?socket=db.sock", "the path of `socket` is relative"),
        ("sqlite:s3cret.db", "the path is relative"),
        ("mysql://u:s3c/ret@h/d", "percent-encoded"),
    ] {
        let error = read(text).expect_err(text).to_string();
        let place = format!("in the file {}", path.display());
        assert!(error.contains(problem) && error.contains(&place), "{text}: {error}");
        assert!(!error.contains("s3c"), "{text}: {error}");
    }
    read("SQLITE:/ids.db").expect("a scheme has no case");
    let error = Options::from_file("mysql://u:s3cret@h/d").map(|_| ()).expect_err("a URL");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

/// Replacing characters would name another namespace or password.
#[test]
fn a_variable_that_is_no_text_is_refused() {
    if env::var_os("UIDRING_URL").is_some() {
        let error = Options::from_env().map(|_| ()).expect_err("no text").to_string();
        return assert!(error.contains("UIDRING_URL is not UTF-8"), "{error}");
    }
    let mut again = this_test("urls::a_variable_that_is_no_text_is_refused");
    again.env("UIDRING_URL", OsStr::from_bytes(b"worker:7?namespace=\xff"));
    assert!(again.status().expect("runs").success());
}

#[test]
fn a_missing_file_is_told_what_creates_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let error = |url: &str| open(url).map(|_| ()).expect_err("no file").to_string();
    assert!(error(&url).contains("worker init") && error(&url).contains("`?mode=rwc`"));
    // A start creates no tag.
    for options in ["?tag=orders", "?tag=orders&mode=rwc"] {
        let text = error(&format!("{url}{options}"));
        assert!(text.contains("segment create") && !text.contains("`?mode=rwc`"), "{text}");
    }
}
