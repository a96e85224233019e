//! Passwords that would travel without TLS.

use std::net::IpAddr;

/// Returns whether what is sent to this host stays on this machine.
pub fn is_local(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    address.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the refusal to send a password to another machine where nobody has said whether by TLS: how to say that
/// it is to be used, and that it is not.
pub fn unsaid(host: &str, with: &str, without: &str) -> String {
    format!(
        "a password would be sent to {host}, another machine, and nothing is said of TLS: write {with} for TLS; \
         or {without} to go without, and whoever is in between can read the password and all else"
    )
}

/// Returns the warning of a connection where somebody has said so.
pub fn readable(host: &str) -> String {
    format!(
        "the connection to {host} has no TLS: whoever is in between can read and change all of it, and get the \
         password by asking for it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "db", "10.0.0.1", "localhost.example", "0.0.0.0", "[2001:db8::7]"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
