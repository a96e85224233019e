//! The name of an instance in the registry.

use std::env;
use std::ffi::OsString;
use std::fmt;

use uidring::Error;
use uidring_store::{NodeIdentity, NodeKind};

use super::error::ZooKeeperError;
use super::nodes::BOUNDED;

/// Names of nodes and files begin with the instance's name, and must fit in 255 bytes.
const MAX_LENGTH: usize = 128;

/// The name of an instance in a registry. `Display` shows it. The same name always gets the same worker id.
///
/// Leaf uses `ip:port`. If addresses change, use a stable name, such as the pod's name in a StatefulSet. Leaf splits a
/// node's name at its first `-`, so each `-` becomes `_`: `web-0` and `web_0` are one instance.
///
/// ```
/// use uidring_zookeeper::Instance;
///
/// assert_eq!(Instance::new("web-0")?.to_string(), "web_0");
/// assert_eq!(Instance::new("10.0.0.7:8080")?.to_string(), "10.0.0.7:8080");
/// assert!(Instance::new("web/0").is_err());
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    name: String,
}

impl Instance {
    /// Returns the instance with this name, which may be an `ip:port`.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::LeafName`](crate::ZooKeeperError::LeafName) if the name is empty, longer than 128 bytes, ends
    /// in `@bounded`, or contains slashes, blanks or control characters.
    pub fn new(name: &str) -> Result<Self, Error> {
        check_name("instance", name)?;
        Ok(Self { name: name.replace('-', "_") })
    }

    /// Returns the instance that the environment variable `UIDRING_INSTANCE` names; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] if the variable is not UTF-8, or not a name as for [`new`](Self::new).
    pub fn from_env() -> Result<Option<Self>, Error> {
        let wrong = |problem: String| Error::Environment {
            problem: format!("the environment variable UIDRING_INSTANCE {problem}"),
        };
        // A lossy conversion could give two processes one name.
        let name = |name: OsString| match name.to_str() {
            Some(name) => Self::new(name).map_err(|error| wrong(format!("is wrong: {error}"))),
            None => Err(wrong("is not UTF-8; set it to a name".into())),
        };
        env::var_os("UIDRING_INSTANCE").map(name).transpose()
    }

    /// Returns address and port for the registry's JSON: from the name, else from the environment, else an address of
    /// this machine and port 0.
    pub(super) fn address(&self) -> Result<(String, String), Error> {
        if let Some((ip, port)) = self.name.rsplit_once(':')
            && port.parse::<u16>().is_ok()
        {
            return Ok((ip.into(), port.into()));
        }
        let node = NodeIdentity::from_env()?;
        let port = if node.kind == NodeKind::Container { node.port } else { "0".into() };
        Ok((node.host, port))
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Refuses names that a node or a file cannot have.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), ZooKeeperError> {
    let problem = match name {
        "" => "it is empty",
        "." | ".." => "it is the name of a folder",
        _ if name.len() > MAX_LENGTH => "it is longer than 128 bytes",
        _ if name.contains("://") => "it is a URL",
        _ if name.contains(['/', '\\']) => "it holds a slash",
        // The suffix of bounded instances' nodes.
        _ if name.ends_with(BOUNDED) => "it ends in @bounded",
        _ if name.contains(char::is_whitespace) => "it holds a blank",
        // ZooKeeper refuses these and noncharacters.
        _ if name.contains(|c: char| c.is_control() || ('\u{f000}'..='\u{ffff}').contains(&c)) => {
            "it holds a control character"
        }
        _ => return Ok(()),
    };
    // Do not show a URL: it may hold a password.
    let name = if name.contains("://") { "…".into() } else { name.escape_debug().to_string() };
    Err(ZooKeeperError::LeafName { what, name, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_leafs_readers() {
        let name = |text: &str| Instance::new(text).map(|instance| instance.name).ok();
        assert_eq!(name("web-0").as_deref(), Some("web_0"));
        assert_eq!(name("a-b-c.example:80").as_deref(), Some("a_b_c.example:80"));
        assert_eq!(name("10.0.0.7:8080").as_deref(), Some("10.0.0.7:8080"));
        let long = "x".repeat(129);
        let short = ["", ".", "..", "a/b", "a b", "a\tb", "a\0", "a\\b", "\u{7f}", "\u{f8ff}"];
        for wrong in short.into_iter().chain(["a@bounded", &long]) {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
        let error = Instance::new("zk://u:s3cret@h").expect_err("a URL");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }

    #[test]
    fn an_address_in_the_name_is_the_address() {
        let address = |text: &str| Instance::new(text).and_then(|i| i.address()).expect("one");
        assert_eq!(address("10.0.0.7:8080"), ("10.0.0.7".into(), "8080".into()));
        assert_eq!(address("::1:8080"), ("::1".into(), "8080".into()));
    }
}
