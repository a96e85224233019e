//! The name of a node in the table of worker ids.

use std::env;

use uidring::Error;
use uidring::clock::{Clock, SystemClock};

use crate::TableError;

/// Whether a node is a container or a machine; the number is the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A container, named by its environment.
    Container = 1,
    /// A machine, named by its address.
    Actual = 2,
}

/// A node's name in `WORKER_NODE`, by the rules of Baidu's UidGenerator. It tells people who has a worker id.
/// Uniqueness does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NodeIdentity {
    /// Column `HOST_NAME`.
    pub host: String,
    /// Column `PORT`.
    pub port: String,
    /// Column `TYPE`.
    pub kind: NodeKind,
}

impl NodeIdentity {
    /// Returns a container named by `UIDRING_HOST` and `UIDRING_PORT`; else by `JPAAS_HOST` and `JPAAS_HTTP_PORT` or
    /// `JPAAS_HOST_PORT_8080`; else this machine, named by its address, with the time in milliseconds and a random
    /// number as the port. Blank variables count as unset.
    ///
    /// # Errors
    ///
    /// [`TableError::Invalid`](crate::TableError::Invalid) if only one of host and port is set.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| Some(env::var_os(name)?.to_string_lossy().into_owned()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|&name| {
                let value = variable(name)?.trim().to_owned();
                (!value.is_empty()).then_some((name, value))
            })
        };
        for (host_name, port_names) in [
            ("UIDRING_HOST", ["UIDRING_PORT"].as_slice()),
            ("JPAAS_HOST", &["JPAAS_HTTP_PORT", "JPAAS_HOST_PORT_8080"]),
        ] {
            let (set, missing) = match (first(&[host_name]), first(port_names)) {
                (Some((_, host)), Some((_, port))) => {
                    return Ok(Self { host, port, kind: NodeKind::Container });
                }
                (Some((set, _)), None) => (set, port_names[0]),
                (None, Some((set, _))) => (set, host_name),
                (None, None) => continue,
            };
            let problem = format!(
                "the environment names only half of a node: {set} is set, {missing} is not; set both or none"
            );
            return Err(TableError::Invalid { problem }.into());
        }
        let millis = SystemClock.now().as_millis();
        let port = format!("{millis}-{}", fastrand::u32(0..100_000));
        Ok(Self { host: local_address(), port, kind: NodeKind::Actual })
    }
}

/// Returns this machine's first address that is not a loopback, IPv4 before IPv6.
fn local_address() -> String {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let others = interfaces.iter().filter(|interface| !interface.is_loopback());
    let first = others.map(|interface| interface.ip()).min_by_key(|address| address.is_ipv6());
    first.map_or_else(|| "127.0.0.1".into(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(variables: &[(&str, &str)]) -> Result<NodeIdentity, Error> {
        NodeIdentity::from_variables(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_container_is_named_by_its_own_variables_first() {
        let jpaas =
            [("JPAAS_HOST", "h"), ("JPAAS_HOST_PORT_8080", "80"), ("JPAAS_HTTP_PORT", " 81 ")];
        let node = identity(&jpaas).expect("named");
        assert_eq!((&*node.host, &*node.port, node.kind), ("h", "81", NodeKind::Container));
        let node = identity(&jpaas[..2]).expect("named");
        assert_eq!(&*node.port, "80");

        let own = [("UIDRING_HOST", "mine"), ("UIDRING_PORT", "1")];
        let node = identity(&[&own[..], &jpaas].concat()).expect("named");
        assert_eq!((&*node.host, &*node.port), ("mine", "1"));
    }

    #[test]
    fn half_a_name_is_an_error() {
        for half in ["UIDRING_HOST", "UIDRING_PORT", "JPAAS_HOST", "JPAAS_HTTP_PORT"] {
            let error = identity(&[(half, "1")]).expect_err(half);
            assert!(error.to_string().contains(half), "{error}");
        }
    }

    #[test]
    fn a_machine_is_named_by_its_address_and_the_time() {
        let node = identity(&[("JPAAS_HOST", "  ")]).expect("blank does not count");
        assert_eq!(node.kind, NodeKind::Actual);
        assert!(node.host.parse::<std::net::IpAddr>().is_ok(), "{}", node.host);
        let (millis, random) = node.port.split_once('-').expect("two parts");
        assert!(millis.parse::<u64>().is_ok_and(|m| m > 1_767_225_600_000), "{}", node.port);
        assert!(random.parse::<u32>().is_ok_and(|r| r < 100_000), "{}", node.port);
    }
}
