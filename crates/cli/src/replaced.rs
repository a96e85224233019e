//! Replacements of flags that have become URLs, and of URL options written as flags.

use uidring_any::table::{GENERATORS, WORKERS, kinds};

enum Now {
    Url(&'static str),
    UrlFile,
    Layout(&'static str),
    Option(&'static str),
    Variable(&'static str),
}

const REPLACED: &[(&str, Now)] = &[
    ("sqlite", Now::Url("sqlite:PATH")),
    ("mysql", Now::Url("mysql://USER@HOST/DATABASE")),
    ("postgres", Now::Url("postgres://USER@HOST/DATABASE")),
    ("etcd", Now::Url("etcd://HOST:PORT,HOST:PORT/PREFIX")),
    ("etcd-prefix", Now::Url("etcd://HOST:PORT,HOST:PORT/PREFIX")),
    ("zookeeper", Now::Url("zookeeper://HOST:PORT,HOST:PORT?name=NAME")),
    ("worker-id", Now::Url("worker:N")),
    ("datacenter-id", Now::Url("worker:D/W")),
    ("mysql-url-file", Now::UrlFile),
    ("postgres-url-file", Now::UrlFile),
    ("etcd-auth-file", Now::UrlFile),
    ("zookeeper-auth-file", Now::UrlFile),
    ("preset", Now::Layout("NAME")),
    ("tick", Now::Layout("41/10/12/ms/2020-01-01")),
    ("epoch", Now::Layout("41/10/12/ms/2020-01-01")),
    ("mysql-ca", Now::Option("ca=PATH")),
    ("postgres-ca", Now::Option("ca=PATH")),
    ("etcd-ca", Now::Option("ca=PATH")),
    ("zookeeper-ca", Now::Option("ca=PATH")),
    ("mysql-cert", Now::Option("cert=PATH")),
    ("etcd-cert", Now::Option("cert=PATH")),
    ("zookeeper-cert", Now::Option("cert=PATH")),
    ("mysql-key", Now::Option("key=PATH")),
    ("etcd-key", Now::Option("key=PATH")),
    ("zookeeper-key", Now::Option("key=PATH")),
    ("mysql-require-durability", Now::Option("durability=require")),
    ("postgres-require-durability", Now::Option("durability=require")),
    ("mysql-cluster", Now::Option("cluster=synchronous")),
    ("postgres-cluster", Now::Option("cluster=synchronous")),
    ("mysql-deadline", Now::Option("deadline=TIME")),
    ("postgres-deadline", Now::Option("deadline=TIME")),
    ("leaf-cache", Now::Option("cache=PATH")),
    ("no-leaf-cache", Now::Option("cache=none")),
    ("risk-repeats-in-outages", Now::Option("outages=risk-repeats")),
    ("instance", Now::Variable("UIDRING_INSTANCE")),
];

/// Returns what to write instead of a flag, such as `--sqlite`.
pub fn flag(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    if let Some(now) = find(name) {
        return Some(match now {
            Now::Url(url) => format!("write -u '{url}'"),
            Now::UrlFile => {
                "write the URL, with user and password, into a file, and --url-file PATH".into()
            }
            Now::Layout(layout) => format!("write --layout {layout}"),
            Now::Option(option) => format!("write {option} after the URL: -u 'URL?{option}'"),
            Now::Variable(name) => format!("set the environment variable {name}"),
        });
    }
    is_option(name).then(|| format!("it is an option of the URL: -u 'URL?{name}=VALUE'"))
}

pub fn is_option(name: &str) -> bool {
    let kinds = kinds();
    let owners = GENERATORS.iter().chain(&WORKERS).copied();
    let owners = owners.chain(kinds.iter().map(|kind| kind.options));
    owners.flat_map(|owner| owner.rows).any(|row| row.name == name)
}

/// Returns what to write instead of a key of the server's file.
#[cfg(feature = "server")]
pub fn key(key: &str) -> Option<String> {
    let assigned = |option: &str| option.replacen('=', " = \"", 1) + "\"";
    Some(match find(key)? {
        Now::Url(url) => format!("write url = \"{url}\""),
        Now::UrlFile => {
            "write the URL, with user and password, into a file, and url-file = \"PATH\"".into()
        }
        Now::Layout(layout) => format!("write layout = \"{layout}\""),
        Now::Option(option) => format!("write {}", assigned(option)),
        Now::Variable(name) => format!("set the environment variable {name}"),
    })
}

fn find(name: &str) -> Option<&'static Now> {
    REPLACED.iter().find(|(replaced, _)| *replaced == name).map(|(_, now)| now)
}
