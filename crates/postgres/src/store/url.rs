//! The URL of a server, read so that nothing of it is repeated when it is wrong.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use uidring_store::url::{check_once, database_url, shown};

/// What a URL says.
pub struct Parts {
    /// One for each host.
    pub hosts: Vec<Config>,
    /// Unless it says nothing of it.
    pub requires_tls: Option<bool>,
    pub authority: Option<PathBuf>,
    /// With its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Parameters for the driver. Others would change what transactions rely on, or be heeded by nobody.
const FOR_THE_DRIVER: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "port",
    "tcp_user_timeout",
];

const NO_TLS: &str = "its sslmode has to be disable, or one of require, verify-ca and verify-full, which \
                      here are the same; with allow and prefer whoever is in between decides";

/// The parts of a URL, or what is wrong with it.
pub fn read(url: &str) -> Result<Parts, String> {
    let (_, parameters) = database_url(url, &["postgres://", "postgresql://"])?;
    let address = url.split_once('?').map_or(url, |(address, _)| address);
    let (mut rest, mut files) = (Vec::new(), [const { None }; 3]);
    let mut requires_tls = None;
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let slots = ["sslrootcert", "sslcert", "sslkey"];
        if let Some(index) = slots.iter().position(|slot| *slot == name) {
            let path = percent_decode_str(value).decode_utf8();
            let path = path.map_err(|_| "the path of a file in it is not percent-encoded")?;
            files[index] = Some(PathBuf::from(&*path));
        } else if name == "sslmode" {
            requires_tls = match value {
                "disable" => Some(false),
                "require" | "verify-ca" | "verify-full" => Some(true),
                _ => return Err(NO_TLS.into()),
            };
        } else if name == "target_session_attrs" {
            if !["read-write", "primary", "any"].contains(&value) {
                return Err(
                    "its target_session_attrs has to be read-write: rows are to be written".into(),
                );
            }
        } else if FOR_THE_DRIVER.contains(&name) {
            rest.push(parameter);
        } else {
            return Err(format!("there is no parameter{}", shown(name)));
        }
    }
    check_once(parameters)?;
    let [authority, certificate, key] = files;
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("sslcert and sslkey are given together or not at all".into()),
    };
    let rest = rest.join("&");
    let mut hosts = one_by_one(address)
        .map(|address| configured(&format!("{address}?{rest}")))
        .collect::<Result<Vec<Config>, &str>>()?;
    if let [_, _, ..] = hosts[..] {
        for host in &mut hosts {
            host.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
    }
    Ok(Parts { hosts, requires_tls, authority, certificate })
}

/// Returns the address of each host of `postgres://USER@HOST1:PORT1,HOST2:PORT2/DATABASE`.
fn one_by_one(address: &str) -> impl Iterator<Item = String> {
    let start = address.find("://").map_or(0, |scheme| scheme + 3);
    let start = address.rfind('@').map_or(start, |at| at + 1);
    let end = address[start..].find('/').map_or(address.len(), |end| start + end);
    let hosts = address[start..end].split(',');
    hosts.map(move |host| format!("{}{host}{}", &address[..start], &address[end..]))
}

fn configured(url: &str) -> Result<Config, &'static str> {
    let mut config: Config = url
        .parse()
        .map_err(|_| "it has a part that cannot be read, such as a port that is no number")?;
    if config.get_user().is_none_or(str::is_empty) {
        return Err("it names no user");
    }
    if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
        return Err("several hosts are written before the database: HOST1:PORT1,HOST2:PORT2");
    }
    config.ssl_mode(SslMode::Disable);
    if config.get_application_name().is_none() {
        config.application_name("uidring");
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_apart() {
        for (url, text) in [
            ("", "is empty"),
            ("ids", "does not begin"),
            ("postgres://u@/d", "no host"),
            ("postgres://h/d", "no user"),
            ("postgres://u@h", "no database"),
            ("postgres://u:a/b@h/d", "percent-encoded"),
            ("postgres://u@h/d?nonsense=1", "no parameter `nonsense`"),
            ("postgres://u@h/d?S3cret=1", "no parameter"),
            ("postgres://u@h/d?options=-csearch_path", "no parameter `options`"),
            ("postgres://u@h/d?sslmode=prefer", "whoever is in between decides"),
            ("postgres://u@h/d?sslcert=a", "together"),
            ("postgres://u@h/d?sslmode=require&sslmode=disable", "`sslmode` is given twice"),
            ("postgres://u@h/d?S3cret=1&S3cret=2", "no parameter"),
            ("postgres://u@h/d?sslrootcert=%ff", "percent-encoded"),
            ("postgres://u@h/d?target_session_attrs=standby", "read-write"),
            ("postgres://u@h:s3cret/d", "a port that is no number"),
        ] {
            let Err(error) = read(url) else { panic!("{url}") };
            assert!(error.contains(text), "{url}: {error}");
            assert!(!error.to_lowercase().contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn files_and_modes_are_taken_from_the_parameters() {
        let url = "postgres://u@h/d?sslmode=verify-full&sslrootcert=%2Fa%20b&sslcert=/c&sslkey=/k";
        let Ok(parts) = read(url) else { panic!("a URL") };
        assert_eq!(parts.requires_tls, Some(true));
        assert_eq!(parts.authority, Some("/a b".into()));
        assert_eq!(parts.certificate, Some(("/c".into(), "/k".into())));
    }
}
