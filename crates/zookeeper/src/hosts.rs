//! Parses the list of servers.

use uidring_store::url::{host_and_port, without_brackets};

/// The prefix of a server with TLS.
const TLS: &str = "tls://";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    pub is_tls: bool,
    /// A name or an address, without brackets.
    pub name: &'a str,
    pub port: u16,
}

/// Returns the servers of a text. All must use TLS, or none.
pub fn parse(text: &str) -> Result<Vec<Host<'_>>, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.split(',').any(|part| part.strip_prefix(TLS).unwrap_or(part).contains("://")) {
        return Err("it is a URL, of another scheme than tls");
    }
    if text.contains('@') {
        return Err("a user has no place in it");
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it holds a blank");
    }
    let (mut hosts, mut parts) = (Vec::new(), text.split(',').peekable());
    while let Some(part) = parts.next() {
        let stripped = part.strip_prefix(TLS);
        let server = stripped.unwrap_or(part);
        let (server, path) = match server.split_once('/') {
            Some((server, path)) => (server, Some(path)),
            None => (server, None),
        };
        if let Some(path) = path {
            if parts.peek().is_some() {
                return Err("a comma follows the path");
            }
            if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return Err("the path has an empty part, `.` or `..`");
            }
        }
        hosts.push(host(stripped.is_some(), server)?);
    }
    if hosts.iter().any(|host| host.is_tls != hosts[0].is_tls) {
        return Err("TLS is for all servers or for none");
    }
    Ok(hosts)
}

#[cfg(feature = "tls")]
pub fn without_schemes(text: &str) -> String {
    // They appear nowhere else, because no path has an empty part.
    text.replace(TLS, "")
}

fn host(is_tls: bool, server: &str) -> Result<Host<'_>, &'static str> {
    let (name, port) = host_and_port(server)?;
    Ok(Host { is_tls, name: without_brackets(name).unwrap_or(name), port: port.unwrap_or(2_181) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_tls_all_or_none() {
        let text = "tls://zk1:2281,tls://[::1]/ids/a";
        let hosts = parse(text).expect(text);
        let host = |name, port| Host { is_tls: true, name, port };
        assert_eq!(hosts, [host("zk1", 2_281), host("::1", 2_181)]);
        for text in ["tls://a,b", "a,tls://b"] {
            assert_eq!(parse(text), Err("TLS is for all servers or for none"), "{text}");
        }
        for wrong in
            ["tls://", "tls://a,", "tls://tls://a", "ssl://a", "a/tls://b", "a/b,c", "tls:a"]
        {
            parse(wrong).expect_err(wrong);
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_client_gets_servers_without_schemes() {
        assert_eq!(without_schemes("tls://a:1,tls://[::1]/ids"), "a:1,[::1]/ids");
    }
}
