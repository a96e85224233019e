//! Detects whether this process runs in a container, whose file system may be lost with it.

use std::env;
use std::path::Path;

use uidring::adapter::{may_have_url, visible};

/// Overrides the signs: `1` for a container, `0` for none.
const VARIABLE: &str = "UIDRING_CONTAINER";

/// Files that Docker and Podman create in the root of a container.
const FILES: [&str; 2] = [".dockerenv", "run/.containerenv"];

/// Set by Kubernetes in each pod.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// Set by systemd, LXC and Podman.
const CONTAINER: &str = "container";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// What shows that this is a container.
    pub sign: String,
    /// Whether it is a pod. A pod's root ends with it even if that is a disk.
    pub is_pod: bool,
}

/// Returns the container of this process, or `None` outside of one.
///
/// # Errors
///
/// What is wrong with the value of `UIDRING_CONTAINER`.
pub fn detect() -> Result<Option<Container>, String> {
    detect_in(Path::new("/"), |name| env::var_os(name).map(|value| value.display().to_string()))
}

fn detect_in(
    root: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Container>, String> {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let by_variable = |name: &str| is_set(name).then(|| format!("the variable {name}"));
    let own = match variable(VARIABLE).as_deref() {
        None | Some("") => None,
        Some("0") => return Ok(None),
        Some("1") => by_variable(VARIABLE),
        Some(other) => {
            let shown = match may_have_url(other) {
                true => "a URL".into(),
                false => format!("`{}`", visible(other)),
            };
            return Err(format!(
                "the variable {VARIABLE} is {shown}: set it to 1 in a container, to 0 elsewhere, or not at all"
            ));
        }
    };
    let file = || FILES.iter().map(|file| root.join(file)).find(|file| file.exists());
    let file = || file().map(|file| file.display().to_string());
    let sign = by_variable(POD).or(own).or_else(file).or_else(|| by_variable(CONTAINER));
    Ok(sign.map(|sign| Container { sign, is_pod: is_set(POD) }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_container_is_known_by_files_and_variables() {
        let root = tempfile::tempdir().expect("a folder");
        let detect = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let value = |name: &str| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
            detect_in(root.path(), value)
        };
        let sign = |set: &[(&str, &str)]| detect(set).expect("valid").map(|found| found.sign);
        assert_eq!(sign(&[]), None);
        assert_eq!(sign(&[(CONTAINER, ""), (VARIABLE, "")]), None);
        for name in [CONTAINER, POD] {
            assert_eq!(sign(&[(name, "x")]), Some(format!("the variable {name}")));
            assert_eq!(sign(&[(name, "x"), (VARIABLE, "0")]), None);
            let found = detect(&[(name, "x"), (VARIABLE, "1")]).expect("valid").expect("one");
            assert_eq!(found.is_pod, name == POD);
        }
        assert!(sign(&[(VARIABLE, "1")]).is_some_and(|text| text.contains(VARIABLE)));
        for value in ["yes", "true", "2", " 1"] {
            let error = detect(&[(VARIABLE, value)]).expect_err(value);
            assert!(error.contains(&format!("`{value}`: set it to 1")), "{error}");
        }
        for file in FILES {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(&path, "").expect("written");
            assert_eq!(sign(&[]), Some(path.display().to_string()));
            assert_eq!(sign(&[(VARIABLE, "0")]), None);
            fs::remove_file(path).expect("removed");
        }
    }
}
