//! Malformed URLs of each engine: each is an error that says what to write, and shows no password.

use uidring_any::Options;

/// URLs that are right, with a password that no error may show. `PARAMETERS` stands for more of them.
const RIGHT: [&str; 5] = [
    "mysql://app:s3cret@db:3306/ids?tls=offPARAMETERS",
    "postgres://app:s3cret@db:5432/ids?tls=offPARAMETERS",
    "etcd://app:s3cret@db:2379/ids?tls=offPARAMETERS",
    "zookeeper://app:s3cret@db:2181/ids?tls=off&name=ordersPARAMETERS",
    "sqlite:/s3cret/ids.db?mode=rwPARAMETERS",
];

/// Makes a URL wrong: replaces the first text by the second.
const CHANGES: [(&str, &str); 33] = [
    ("app:s3cret", "app:s3/cret"),
    ("app:s3cret", "app:s3?cret"),
    ("app:s3cret", "app:s3#cret"),
    ("app:s3cret", "app:s3@cret"),
    ("app:s3cret", "app:s3%cret"),
    ("app:s3cret", "app:%s3cret"),
    ("app:s3cret", "app:s3cret%"),
    ("app:s3cret", "app:s3cret%ff"),
    ("s3cret@db:", "s3cret@db:x"),
    ("s3cret@db:", "s3cret@db:+"),
    ("s3cret@db:", "s3cret@db:-"),
    ("s3cret@db:", "s3cret@db:9"),
    ("s3cret@db:", "s3cret@::1:"),
    ("s3cret@db:", "s3cret@[::1:"),
    ("s3cret@db:", "s3cret@d b:"),
    ("s3cret@db:", "s3cret@,db:"),
    ("s3cret@db:", "s3cret@:"),
    ("://", ":"),
    ("://", ":/"),
    ("://", " ://"),
    ("PARAMETERS", "&layout"),
    ("PARAMETERS", "&=s3cret"),
    ("PARAMETERS", "&password=s3cret"),
    ("PARAMETERS", "&s3cret=s3cret"),
    ("PARAMETERS", "&S3cret"),
    ("PARAMETERS", "&layout=s3cret"),
    ("PARAMETERS", "&layout=uid&layout=s3cret"),
    ("PARAMETERS", "&boost-power=s3cret"),
    ("PARAMETERS", "&max-borrow=-1"),
    ("PARAMETERS", "&take=%s3cret"),
    ("PARAMETERS", "&generator=s3cret"),
    ("PARAMETERS", "&worker=s3cret"),
    ("PARAMETERS", "&lease=s3cret"),
];

/// What stands before and after a whole URL.
const AROUND: [(&str, &str); 12] = [
    (" ", ""),
    ("'", "'"),
    ("\"", "\""),
    ("<", ">"),
    ("url=", ""),
    ("jdbc:", ""),
    ("+", ""),
    ("\u{feff}", ""),
    ("", "#s3cret"),
    ("", "@s3cret"),
    ("", "&a=b=s3cret"),
    ("", "\n&s3cret=1"),
];

#[test]
fn each_is_an_error_that_says_what_to_write_and_shows_no_password() {
    let mut malformed = Vec::new();
    for right in RIGHT {
        for (before, after) in CHANGES {
            let changed = right.replacen(before, after, 1);
            // Not all URLs have all parts.
            if changed != right {
                malformed.push(changed.replace("PARAMETERS", ""));
            }
        }
        let right = right.replace("PARAMETERS", "");
        malformed.extend(AROUND.map(|(before, after)| format!("{before}{right}{after}")));
    }
    assert!(malformed.len() >= 200, "{}", malformed.len());
    for url in malformed {
        let options = Options::from_url(&url);
        let error = options.and_then(|options| options.store()).map(|_| ()).expect_err(&url);
        let text = format!("{error}\n{error:?}");
        let is_of_url = text.contains("the URL, as given, is wrong: ") && text.contains("; write ");
        let is_of_option = text.contains(" (URL as given)")
            && [
                ": write ",
                "; write ",
                "; leave ",
                ": leave ",
                "; the nearest is `",
                "; docs/options.md lists",
            ]
            .iter()
            .any(|advice| text.contains(advice));
        assert!(is_of_url || is_of_option, "{url}: {text}");
        assert!(!text.contains("s3"), "{url}: {text}");
    }
}
