//! Parses the list of servers.

use uidring_store::url::{Host, host_and_port, without_brackets};

/// The prefix of a server with TLS.
pub const TLS: &str = "tls://";

/// Returns the servers of a text, and whether they use TLS: all must, or none.
pub fn parse(text: &str) -> Result<(Vec<Host>, bool), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    let has_tls = text.starts_with(TLS);
    if text.split(',').any(|part| part.starts_with(TLS) != has_tls) {
        return Err("TLS is for all servers or for none");
    }
    let parts = text.split(',').map(|part| part.strip_prefix(TLS).unwrap_or(part));
    let plain = parts.collect::<Vec<_>>().join(",");
    if plain.contains("://") {
        return Err("it is a URL, of another scheme than tls");
    }
    if plain.contains('@') {
        return Err("a user has no place in it");
    }
    if plain.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it holds a blank");
    }
    let (servers, path) = plain.split_once('/').unwrap_or((&plain, "path"));
    if path.contains(',') {
        return Err("a comma follows the path");
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("the path has an empty part, `.` or `..`");
    }
    let host = |server| {
        let (name, port) = host_and_port(server)?;
        Ok(Host { name: without_brackets(name).unwrap_or(name).to_owned(), port })
    };
    Ok((servers.split(',').map(host).collect::<Result<_, &str>>()?, has_tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_tls_all_or_none() {
        let text = "tls://zk1:2281,tls://[::1]/ids/a";
        let host = |name: &str, port| Host { name: name.into(), port };
        let hosts = vec![host("zk1", Some(2_281)), host("::1", None)];
        assert_eq!(parse(text), Ok((hosts, true)));
        for text in ["tls://a,b", "a,tls://b"] {
            assert_eq!(parse(text), Err("TLS is for all servers or for none"), "{text}");
        }
        for wrong in
            ["tls://", "tls://a,", "tls://tls://a", "ssl://a", "a/tls://b", "a/b,c", "tls:a"]
        {
            parse(wrong).expect_err(wrong);
        }
    }
}
