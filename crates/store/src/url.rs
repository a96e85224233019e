//! Addresses and URLs, of which nothing that may be secret is repeated.

use crate::is_port;

/// Returns host and port of `HOST:PORT`, of which the port may be left out. An IPv6 address stands in brackets,
/// which are kept.
///
/// # Errors
///
/// What is wrong.
pub fn host_and_port<'a>(
    server: &'a str,
    usual_port: &'a str,
) -> Result<(&'a str, &'a str), &'static str> {
    let (host, port) = match server.rsplit_once(':') {
        Some(parts) if !server.ends_with(']') => parts,
        _ => (server, usual_port),
    };
    let ipv6 = without_brackets(host);
    if ipv6.unwrap_or(host).is_empty() {
        return Err("a host is empty");
    }
    if ipv6.is_none() && host.contains(['[', ']', ':']) || !is_port(port) {
        return Err("a port is wrong (write an IPv6 address in brackets)");
    }
    Ok((host, port))
}

/// Returns the IPv6 address of a host in brackets.
pub fn without_brackets(host: &str) -> Option<&str> {
    host.strip_prefix('[')?.strip_suffix(']')
}

/// Returns the user and hosts of the URL of a database, and its parameters.
///
/// Finds the slips by which a part of the password would be taken for something else, and shown: a character of
/// it that should have been percent-encoded ends the part before it.
///
/// # Errors
///
/// What is wrong.
pub fn database_url<'a>(url: &'a str, schemes: &[&str]) -> Result<(&'a str, &'a str), String> {
    if url.is_empty() {
        return Err("it is empty".into());
    }
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| format!("it does not begin with {}", schemes[0]))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if rest.contains(['#', '@']) || authority.matches('@').count() > 1 {
        return Err("a `@`, `/`, `?` or `#` in user or password is not percent-encoded".into());
    }
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_named = parameters.split('&').any(|parameter| parameter.starts_with("host"));
    if host.starts_with(':') || host.is_empty() && !is_named {
        return Err("it names no host".into());
    }
    match path.strip_prefix('/') {
        None | Some("") => Err("it names no database".into()),
        Some(path) if path.contains('/') => Err("its database has a `/`".into()),
        Some(_) => Ok((authority, parameters)),
    }
}

/// Refuses a parameter that is given twice: readers differ in which one counts.
///
/// # Errors
///
/// What is wrong.
pub fn check_once(parameters: &str) -> Result<(), String> {
    let mut names: Vec<_> = parameters
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| parameter.split_once('=').map_or(parameter, |(name, _)| name))
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the parameter{} is given twice", shown(pair[0]))),
        None => Ok(()),
    }
}

/// Returns the name of a parameter for a text, with a blank before it. Anything but a word may be the end of a
/// password that should have been percent-encoded, and is not shown.
pub fn shown(name: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word && !name.is_empty() { format!(" `{name}`") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_given_once() {
        for parameters in ["", "a=1", "a=1&&b=1", "a=b&b=a"] {
            assert_eq!(check_once(parameters), Ok(()), "{parameters}");
        }
        let twice = |parameters| check_once(parameters).expect_err("twice");
        assert_eq!(twice("a=1&b=2&a=1"), "the parameter `a` is given twice");
        assert_eq!(twice("a&b&a=1"), "the parameter `a` is given twice");
        assert_eq!(twice("S3cret=1&S3cret=2"), "the parameter is given twice");
    }
}
