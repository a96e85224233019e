//! A pod's number in its StatefulSet.

use std::env;
use std::ffi::OsString;
use std::fs;

use crate::error::Error;
use crate::layout::Layout;
use crate::text::may_have_url;

/// The number of this process among its replicas, such as a pod's ordinal in its StatefulSet: `3` for the pod `app-3`.
///
/// Two processes may have the same ordinal at once: if you force-delete `app-3`, Kubernetes starts a new one although
/// the old one may still run on an unreachable node. So an ordinal alone is no source of worker ids. With a file on the
/// pod's volume it is: `SqliteStore::ordinal` of `uidring-sqlite` keeps in it how far each holder may issue.
///
/// ```
/// use uidring::Layout;
/// use uidring::worker::Ordinal;
///
/// let ordinal = Ordinal::of_host("app-3.app.shop.svc.cluster.local")?;
/// assert_eq!(ordinal.number(), 3);
/// assert_eq!(ordinal.offset(100).worker_id(&Layout::SNOWFLAKE)?, 103);
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinal {
    number: u64,
    offset: u64,
}

/// Here the kubelet says that a pod has its node's network, and so its node's name.
const HOSTS: &str = "/etc/hosts";
const HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).";

impl Ordinal {
    /// The variable that passes a pod's label `apps.kubernetes.io/pod-index`.
    pub const VARIABLE: &'static str = "UIDRING_ORDINAL";

    /// Returns this ordinal.
    pub fn new(number: u64) -> Self {
        Self { number, offset: 0 }
    }

    /// Returns the ordinal in the environment variable `UIDRING_ORDINAL`. If that is unset or empty, as on Kubernetes
    /// before 1.28, returns that of the [host name](Self::of_host) in `HOSTNAME`.
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] if the variable holds something else, or neither gives a number. A pod with its node's
    /// network has the node's host name, which is refused.
    pub fn from_env() -> Result<Self, Error> {
        let hosts = || fs::read_to_string(HOSTS).unwrap_or_default();
        Self::from_variables(|name| env::var_os(name), hosts)
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        hosts: impl FnOnce() -> String,
    ) -> Result<Self, Error> {
        let text = |name| variable(name).filter(|value| !value.is_empty());
        if let Some(value) = text(Self::VARIABLE) {
            let value = value.to_string_lossy();
            return decimal(&value)
                .map(Self::new)
                .ok_or_else(|| unknown(format!("{} {}", Self::VARIABLE, holds(&value))));
        }
        let Some(name) = text("HOSTNAME") else {
            let problem = format!("neither {} nor HOSTNAME is set", Self::VARIABLE);
            return Err(unknown(problem));
        };
        let name = name.to_string_lossy();
        if hosts().starts_with(HOST_NETWORK) {
            let problem = format!(
                "{} is not set, and the host name is the node's (hostNetwork): HOSTNAME {}",
                Self::VARIABLE,
                holds(&name)
            );
            return Err(unknown(problem));
        }
        Self::of_host(&name)
    }

    /// Returns the number that ends a host name, as in `app-3` or `app-3.app.shop.svc.cluster.local`.
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] if the name's first part does not end in a hyphen and a number without leading zeros.
    /// `app-03` may be another host than `app-3`.
    pub fn of_host(name: &str) -> Result<Self, Error> {
        let first = name.split('.').next().unwrap_or_default();
        let number = first
            .rsplit_once('-')
            .filter(|(before, _)| !before.is_empty())
            .and_then(|(_, number)| decimal(number));
        number.map(Self::new).ok_or_else(|| {
            unknown(format!(
                "{} is not set, and the host name does not end in a hyphen and a number: HOSTNAME {}",
                Self::VARIABLE,
                holds(name)
            ))
        })
    }

    /// Adds an offset, so that several StatefulSets can share a layout.
    #[must_use]
    pub fn offset(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Returns the number, without the offset.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number plus the offset.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] if it does not fit the layout.
    pub fn worker_id(&self, layout: &Layout) -> Result<u64, Error> {
        // No layout has 64 bits of worker id.
        let worker_id = self.number.saturating_add(self.offset);
        layout.check_worker_id(worker_id).map(|()| worker_id)
    }
}

fn unknown(problem: String) -> Error {
    Error::Environment {
        problem: format!(
            "the ordinal of this pod is not known: {problem}; set UIDRING_ORDINAL from the pod's label \
             apps.kubernetes.io/pod-index (see docs/kubernetes.md)"
        ),
    }
}

/// Reads a number as Kubernetes writes it.
fn decimal(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_plain && !has_zeros)
}

/// Describes a value, which may be a URL with a password.
fn holds(value: &str) -> String {
    match may_have_url(value) {
        true => "holds a URL".into(),
        false => format!("holds `{}`", value.escape_debug()),
    }
}

#[cfg(all(test, not(any(uidring_loom, uidring_tsan))))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(index: Option<&str>, host: Option<&str>, hosts: &str) -> Result<u64, String> {
        let variable = |name: &str| match name {
            Ordinal::VARIABLE => index.map(OsString::from),
            "HOSTNAME" => host.map(OsString::from),
            _ => None,
        };
        let ordinal = Ordinal::from_variables(variable, || hosts.into());
        ordinal.map(|ordinal| ordinal.number()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variable_counts_more_than_the_host_name() {
        assert_eq!(read(Some("7"), Some("app-3"), ""), Ok(7));
        assert_eq!(read(Some("0"), None, HOST_NETWORK), Ok(0));
        assert_eq!(read(Some(""), Some("app-3"), "# Kubernetes-managed hosts file.\n"), Ok(3));
        assert_eq!(read(None, Some("my-app-0.my-app.ns.svc"), ""), Ok(0));
        for wrong in ["x", "-1", "+1", " 1", "1\n", "01", "1.0", "\u{661}", "18446744073709551616"]
        {
            let text = read(Some(wrong), Some("app-3"), "").expect_err("no number");
            let shown = wrong.escape_debug().to_string();
            assert!(text.contains(&shown) && text.contains("pod-index"), "{text}");
        }
    }

    #[test]
    fn what_is_no_ordinal_is_said() {
        for host in [
            "app",
            "app-",
            "-3",
            "3",
            "app3",
            "app-03",
            "app-3x",
            "app-3-",
            ".app-3",
            "app.x-3",
            "app-\u{663}",
            "app-18446744073709551616",
            "app-7d4b9c-x2k4n",
        ] {
            let text = read(None, Some(host), "").expect_err(host);
            assert!(text.contains(host) && text.contains(Ordinal::VARIABLE), "{text}");
        }
        let text = read(None, None, "").expect_err("nothing is set");
        assert!(text.contains("neither"), "{text}");
        let text = read(None, Some("node-3"), HOST_NETWORK).expect_err("the node's");
        assert!(text.contains("hostNetwork") && text.contains("node-3"), "{text}");
        for value in
            [read(Some("mysql://u:s3cret@h"), None, ""), read(None, Some("a://s3cret"), "")]
        {
            let text = value.expect_err("a URL");
            assert!(text.contains("a URL") && !text.contains("s3cret"), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_name_gives_its_number_or_none(
            set in "[\\PC&&[^.]]{0,20}",
            number: u64,
            tail in "(\\.[-a-z0-9]{1,9}){0,3}",
        ) {
            let name = format!("{set}-{number}{tail}");
            let expected = (!set.is_empty()).then_some(number);
            prop_assert_eq!(read(None, Some(&name), "").ok(), expected);
            let zeros = format!("{set}-0{number}{tail}");
            prop_assert!(read(None, Some(&zeros), "").is_err());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let found = read(Some(&text), None, "");
            let plain = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
            prop_assert_eq!(found.ok(), plain);
            if let Ok(ordinal) = Ordinal::of_host(&text) {
                let first = text.split('.').next().unwrap_or_default();
                let end = format!("-{}", ordinal.number());
                prop_assert!(first.ends_with(&end));
            }
        }

        #[test]
        fn a_worker_id_is_in_the_layout_or_refused(number: u64, offset: u64) {
            let sum = u128::from(number) + u128::from(offset);
            let found = Ordinal::new(number).offset(offset).worker_id(&Layout::SNOWFLAKE);
            prop_assert_eq!(found.ok().map(u128::from), Some(sum).filter(|sum| *sum < 1_024));
            let near = Ordinal::new(number % 2_048).offset(offset % 2_048);
            let sum = number % 2_048 + offset % 2_048;
            let found = near.worker_id(&Layout::SNOWFLAKE);
            prop_assert_eq!(found.ok(), Some(sum).filter(|sum| *sum < 1_024));
        }
    }
}
