//! Passwords that would be sent without TLS.

use std::net::IpAddr;

use crate::Finding;

/// The error of TLS on a Unix socket.
pub const SOCKET_WITH_TLS: &str =
    "TLS was asked for, and a Unix socket has none; leave out the one or the other";

/// How a URL turns TLS on.
pub const TLS_ON: &str = "tls=verify";

/// How a URL turns TLS off.
pub const TLS_OFF: &str = "tls=off";

/// How a client sends its password, if it has one.
pub struct Login {
    /// Whether there is a password.
    pub has_password: bool,
    /// Whether each connection has TLS, or is not made.
    pub has_tls: bool,
    /// Whether the options say that TLS is on or off.
    pub says_tls: bool,
    /// Whether a server is reached by a Unix socket.
    pub has_socket: bool,
    /// The other servers, by name or address.
    pub hosts: Vec<String>,
}

impl Login {
    /// Returns why no connection may be made, if the options do not say whether to use TLS. `with` and `without` say
    /// how to choose.
    pub fn refusal(&self, with: &str, without: &str) -> Option<String> {
        let host = self.readable_at().filter(|_| !self.says_tls)?;
        Some(format!(
            "a password would be sent to {host}, another machine, and nothing is said of TLS: write {with} for \
             TLS, or {without} to go without; then anyone on the path can read the password"
        ))
    }

    /// Returns what to warn of before each connection, if others can get the password.
    pub fn warning(&self) -> Option<String> {
        let host = self.readable_at()?;
        Some(format!(
            "a connection to {host} has no TLS: anyone on the path can read and change all of it, and get the \
             password by asking for it"
        ))
    }

    /// Says how connections are protected.
    pub fn finding(&self) -> Finding {
        match self.hosts.iter().find(|host| !is_local(host)) {
            _ if self.has_tls => Finding::good("TLS", "each connection has TLS"),
            None => Finding::good("TLS", "connections do not leave this machine, or have TLS"),
            Some(host) => Finding::risk(
                "TLS",
                format!(
                    "a connection to {host} has no TLS: who can see the packets of the network can read and change \
                     them; write {TLS_ON}"
                ),
            ),
        }
    }

    /// Returns the first other machine that gets a password without TLS.
    fn readable_at(&self) -> Option<&String> {
        let is_plain = self.has_password && !self.has_tls;
        self.hosts.iter().find(|host| is_plain && !is_local(host))
    }
}

/// Returns whether data sent to this host stays on this machine.
fn is_local(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    address.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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

    #[test]
    fn a_password_goes_to_another_machine_with_tls_or_where_somebody_says_so() {
        for bits in 0..16 {
            let [has_password, has_tls, says_tls, is_away] =
                [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let hosts = ["localhost", if is_away { "db" } else { "::1" }].map(String::from).into();
            let login = Login { has_password, has_tls, says_tls, has_socket: false, hosts };
            let is_plain = has_password && !has_tls && is_away;
            assert_eq!(login.warning().is_some(), is_plain, "{bits}");
            assert!(login.warning().is_none_or(|text| text.contains("a connection to db has")));
            let refusal = login.refusal("WITH", "WITHOUT");
            assert_eq!(refusal.is_some(), is_plain && !says_tls, "{bits}");
            assert!(refusal.is_none_or(|text| text.contains("sent to db, another machine")));
        }
    }
}
