//! Replacements of flags that have become URLs, and of URL options written as flags.

use uidring_any::table::{GENERATORS, WORKERS, kinds};

/// Returns what to write instead of a flag, such as `--sqlite`.
pub fn flag(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let Some(now) = find(name) else {
        return is_option(name)
            .then(|| format!("it is an option of the URL: -u 'URL?{name}=VALUE'"));
    };
    Some(match now {
        ("url", url) => format!("write -u '{url}'"),
        ("url-file", path) => {
            format!("write the URL, with user and password, into a file, and --url-file {path}")
        }
        ("layout", layout) => format!("write --layout {layout}"),
        ("variable", name) => format!("set the environment variable {name}"),
        (name, value) => format!("write {name}={value} after the URL: -u 'URL?{name}={value}'"),
    })
}

/// Returns what to write instead of a key of the server's file.
#[cfg(feature = "server")]
pub fn key(key: &str) -> Option<String> {
    Some(match find(key)? {
        ("url-file", path) => {
            format!("write the URL, with user and password, into a file, and url-file = \"{path}\"")
        }
        ("variable", name) => format!("set the environment variable {name}"),
        (name, value) => format!("write {name} = \"{value}\""),
    })
}

pub fn is_option(name: &str) -> bool {
    let kinds = kinds();
    let owners = GENERATORS.iter().chain(&WORKERS).copied();
    let owners = owners.chain(kinds.iter().map(|kind| kind.options));
    owners.flat_map(|owner| owner.rows).any(|row| row.name == name)
}

/// Returns what replaced a flag: a setting and its value.
fn find(flag: &str) -> Option<(&'static str, &'static str)> {
    Some(match flag {
        "sqlite" => ("url", "sqlite:PATH"),
        "mysql" => ("url", "mysql://USER@HOST/DATABASE"),
        "postgres" => ("url", "postgres://USER@HOST/DATABASE"),
        "etcd" | "etcd-prefix" => ("url", "etcd://HOST:PORT,HOST:PORT/PREFIX"),
        "zookeeper" => ("url", "zookeeper://HOST:PORT,HOST:PORT?name=NAME"),
        "worker-id" => ("url", "worker:N"),
        "datacenter-id" => ("url", "worker:D/W"),
        "mysql-url-file" | "postgres-url-file" => ("url-file", "PATH"),
        "etcd-auth-file" | "zookeeper-auth-file" => ("url-file", "PATH"),
        "preset" => ("layout", "NAME"),
        "tick" | "epoch" => ("layout", "41/10/12/ms/2020-01-01"),
        "mysql-ca" | "postgres-ca" | "etcd-ca" | "zookeeper-ca" => ("ca", "PATH"),
        "mysql-cert" | "etcd-cert" | "zookeeper-cert" => ("cert", "PATH"),
        "mysql-key" | "etcd-key" | "zookeeper-key" => ("key", "PATH"),
        "mysql-require-durability" | "postgres-require-durability" => ("durability", "require"),
        "mysql-cluster" | "postgres-cluster" => ("cluster", "synchronous"),
        "mysql-deadline" | "postgres-deadline" => ("deadline", "TIME"),
        "leaf-cache" => ("cache", "PATH"),
        "no-leaf-cache" => ("cache", "none"),
        "risk-repeats-in-outages" => ("outages", "risk-repeats"),
        "instance" => ("variable", "UIDRING_INSTANCE"),
        _ => return None,
    })
}
