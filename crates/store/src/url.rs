//! Addresses, URLs and logins. No error repeats what may be secret.

use std::path::Path;

use percent_encoding::percent_decode_str;
use uidring::Error;

use crate::{TableError, read_secret, warn_if_exposed};

/// Splits `HOST:PORT` or `HOST`. An IPv6 address keeps its brackets.
///
/// # Errors
///
/// Says what is wrong.
pub fn host_and_port(server: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !server.ends_with(']') => (host, Some(port)),
        _ => (server, None),
    };
    let ipv6 = without_brackets(host);
    if ipv6.unwrap_or(host).is_empty() {
        return Err("a host is empty");
    }
    let wrong = "a port is wrong (write an IPv6 address in brackets)";
    if ipv6.is_none() && host.contains(['[', ']', ':']) {
        return Err(wrong);
    }
    Ok((host, port.map(|port| port_of(port).ok_or(wrong)).transpose()?))
}

/// Returns the port of digits from 1 to 65535.
fn port_of(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port > 0)
}

/// Returns the IPv6 address of a host in brackets.
pub fn without_brackets(host: &str) -> Option<&str> {
    host.strip_prefix('[')?.strip_suffix(']')
}

/// The parts of a URL, percent-decoded; a `+` stays a `+`. It may hold a password, so it implements neither `Debug` nor
/// `Display`.
#[derive(Default)]
pub struct Url {
    /// The user; empty if there is none.
    pub user: String,
    /// The password.
    pub password: Option<String>,
    /// The servers, in order.
    pub hosts: Vec<Host>,
    /// The parts of the path, without its first `/`.
    pub path: Vec<String>,
    /// The parameters after the `?` and their values, in order.
    pub parameters: Vec<(String, String)>,
}

/// A server of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name or address, without brackets.
    pub name: String,
    /// The port, unless left out.
    pub port: Option<u16>,
}

impl Host {
    /// Returns `HOST:PORT`; `usual` replaces a missing port. An IPv6 address gets brackets.
    pub fn with_port(&self, usual: u16) -> String {
        let (name, port) = (&self.name, self.port.unwrap_or(usual));
        if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") }
    }
}

/// A user and a password. It implements neither `Debug` nor `Display`.
#[derive(Clone)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// Reads `USER:PASSWORD` from the first line of a file.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`] if the file cannot be read; [`TableError::UrlForPath`];
    /// [`TableError::Invalid`], which does not repeat the file's text.
    pub fn from_file(what: &'static str, path: &Path) -> Result<Self, Error> {
        let text = read_secret(what, path)?;
        match text.lines().next().unwrap_or_default().trim().split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                warn_if_exposed(path);
                Ok(Self { user: user.into(), password: password.into() })
            }
            _ => Err(TableError::Invalid {
                problem: format!("{what}, in the file, are wrong; write USER:PASSWORD"),
            }
            .into()),
        }
    }
}

impl Url {
    /// Splits a URL with one of these schemes, such as `mysql://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?NAME=VALUE`.
    ///
    /// # Errors
    ///
    /// Says what is wrong. If a character of the password is not percent-encoded, so that the rest reads as a host or
    /// path, the error says so without repeating it.
    pub fn split(text: &str, schemes: &[&'static str]) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".into());
        }
        if text.starts_with("jdbc:") {
            return Err(
                "it is one of JDBC: leave out `jdbc:`, and write user and password before the host"
                    .into(),
            );
        }
        let found = text.split_once("://").filter(|(scheme, _)| {
            // SQLAlchemy puts a driver's name after a `+`.
            let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
            schemes.contains(&&*scheme)
        });
        let (_, rest) = found.ok_or_else(|| format!("it does not begin with {}://", schemes[0]))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if rest.contains(['#', '@']) || authority.matches('@').count() > 1 {
            return Err("a `@`, `/`, `?` or `#` in user or password is not percent-encoded".into());
        }
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (login, None),
        };
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix('/').map(|path| path.split('/').map(decoded).collect());
        Ok(Self {
            user: decoded(user)?,
            password,
            hosts: hosts_of(hosts)?,
            path: path.transpose()?.unwrap_or_default(),
            parameters: parameters_of(parameters)?,
        })
    }

    /// Splits a URL of a file, such as `sqlite:PATH?NAME=VALUE`. The path is one part.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn split_path(text: &str, scheme: &str) -> Result<Self, String> {
        let (begin, rest) = text.split_once(':').unwrap_or((text, ""));
        if begin == "jdbc" {
            return Err("it is one of JDBC: leave out `jdbc:`".into());
        }
        if begin.contains('+') {
            return Err("a driver follows after a `+`: leave it out".into());
        }
        if !begin.eq_ignore_ascii_case(scheme) {
            return Err(format!("it does not begin with {scheme}:"));
        }
        if rest.starts_with("//") {
            return Err(format!(
                "after `//` programs read different paths: write {scheme}:PATH, which is in the present folder, or \
                 {scheme}:/PATH"
            ));
        }
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (path, parameters) = (vec![decoded(path)?], parameters_of(parameters)?);
        Ok(Self { path, parameters, ..Self::default() })
    }

    /// Returns user and password; `None` if the URL has neither.
    ///
    /// # Errors
    ///
    /// Says that one of them is missing, or that the user contains a `:`, which separates the two in logins to
    /// ZooKeeper and etcd.
    pub fn credentials(&self) -> Result<Option<Credentials>, &'static str> {
        let (user, password) = (self.user.clone(), self.password.clone());
        match password {
            None if user.is_empty() => Ok(None),
            None => Err("it has a user and no password"),
            Some(_) if user.is_empty() => Err("it has a password and no user"),
            Some(_) if user.contains(':') => Err("its user has a `:`"),
            Some(password) => Ok(Some(Credentials { user, password })),
        }
    }

    /// Returns the name of the database, which is the path's only part.
    ///
    /// # Errors
    ///
    /// Says that the name is missing, or contains a `/` or a character that cannot be shown.
    pub fn database(&self) -> Result<&str, &'static str> {
        match &self.path[..] {
            [name] if name.contains(char::is_control) => {
                Err("its database has a character that cannot be seen")
            }
            [name] if !name.is_empty() => Ok(name),
            [_, _, ..] => Err("its database has a `/`"),
            _ => Err("it names no database"),
        }
    }
}

fn hosts_of(text: &str) -> Result<Vec<Host>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let host = |text| -> Result<Host, String> {
        let (name, port) = host_and_port(text)?;
        let name = decoded(without_brackets(name).unwrap_or(name))?;
        check_host(&name)?;
        Ok(Host { name, port })
    };
    text.split(',').map(host).collect()
}

/// Refuses an empty host, and one with characters that errors and logs cannot show.
///
/// # Errors
///
/// Says what is wrong.
pub fn check_host(name: &str) -> Result<(), &'static str> {
    // The path of a Unix socket's folder may have a blank.
    let is_wrong =
        |letter: char| letter.is_control() || letter.is_whitespace() && !name.starts_with('/');
    match name {
        "" => Err("a host is empty"),
        _ if name.contains(is_wrong) => {
            Err("a host has a blank, or a character that cannot be seen")
        }
        _ => Ok(()),
    }
}

fn parameters_of(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split('&').filter(|parameter| !parameter.is_empty());
    let pair = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        Ok((decoded(name)?, decoded(value)?))
    };
    pairs.map(pair).collect()
}

fn decoded(text: &str) -> Result<String, String> {
    let is_code = |rest: &str| {
        rest.get(..2).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    if !text.split('%').skip(1).all(is_code) {
        return Err("a `%` is not percent-encoded: write %25".into());
    }
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| "a part of it is percent-encoded, and no UTF-8")?.into_owned())
}

/// Returns a parameter's name for errors, after a blank. Anything but a word is hidden: it may be the end of a password
/// that is not percent-encoded.
pub fn shown(name: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte));
    if is_word && !name.is_empty() { format!(" `{name}`") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_and_decoded() {
        let url = "MySQL+driver://u%40x:p%3a+%2F@a:1,[::1]:2,%2Frun/i%20ds?a=%26&&b&c=d=e";
        let url = Url::split(url, &["mysql"]).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(url.user, "u@x");
        assert_eq!(url.password.as_deref(), Some("p:+/"));
        let host = |name: &str, port| Host { name: name.into(), port };
        let hosts = [host("a", Some(1)), host("::1", Some(2)), host("/run", None)];
        assert_eq!(url.hosts, hosts);
        assert_eq!((url.path.len(), url.database()), (1, Ok("i ds")));
        let parameters = [("a", "&"), ("b", ""), ("c", "d=e")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(url.parameters, parameters);
    }

    #[test]
    fn wrong_urls_are_told_apart_and_not_repeated() {
        for (text, problem) in [
            ("", "is empty"),
            ("s3cret", "does not begin"),
            ("s3 cret://h/d", "does not begin"),
            ("jdbc:mysql://h/d?password=s3cret", "leave out `jdbc:`"),
            ("a://u:12/s3cret@h/d", "percent-encoded"),
            ("a://u:12?s3cret@h/d", "percent-encoded"),
            ("a://u:12#s3cret@h/d", "percent-encoded"),
            ("a://u:s3@s3cret@h/d", "percent-encoded"),
            ("a://h/d#s3cret", "percent-encoded"),
            ("a://h:s3cret/d", "a port is wrong"),
            ("a://h:0/d", "a port is wrong"),
            ("a://h:+80/d", "a port is wrong"),
            ("a://::1/d", "a port is wrong"),
            ("a://u@:1/d", "a host is empty"),
            ("a://h,/d", "a host is empty"),
            ("a://h%0a/d", "cannot be seen"),
            ("a://u:%ffs3cret@h/d", "no UTF-8"),
            ("a://h/d?n=%ffs3cret", "no UTF-8"),
        ] {
            let error = Url::split(text, &["a"]).err().unwrap_or_else(|| panic!("{text}"));
            assert!(error.contains(problem) && !error.contains("s3cret"), "{text}: {error}");
        }
        for (text, problem) in [
            ("a://h", "no database"),
            ("a://h/", "no database"),
            ("a://h/d/e", "a `/`"),
            ("a://h/d%00", "be seen"),
        ] {
            let url = Url::split(text, &["a"]).unwrap_or_else(|problem| panic!("{problem}"));
            assert!(url.database().expect_err(text).contains(problem), "{text}");
        }
    }
}
