//! Detects whether this process runs in a container, whose file system may be lost with it.

use std::env;
use std::path::Path;

/// Overrides the signs: `1` for a container, `0` for none.
const VARIABLE: &str = "UIDRING_CONTAINER";

/// Files that Docker and Podman create in the root of a container.
const FILES: [&str; 2] = [".dockerenv", "run/.containerenv"];

/// Variables that Kubernetes sets, and that systemd, LXC and Podman set.
const VARIABLES: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "container"];

/// Returns the sign of a container, or `None` outside of one.
pub fn sign() -> Option<String> {
    sign_in(Path::new("/"), |name| env::var(name).ok())
}

fn sign_in(root: &Path, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    match variable(VARIABLE).as_deref() {
        Some("0") => return None,
        Some("1") => return Some(format!("the variable {VARIABLE}")),
        _ => {}
    }
    let file = FILES.iter().map(|file| root.join(file)).find(|file| file.exists());
    if let Some(file) = file {
        return Some(file.display().to_string());
    }
    let is_set = |name: &&&str| variable(name).is_some_and(|value| !value.is_empty());
    VARIABLES.iter().find(is_set).map(|name| format!("the variable {name}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_container_is_known_by_files_and_variables() {
        let root = tempfile::tempdir().expect("a folder");
        let sign = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let value = |name: &str| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
            sign_in(root.path(), value)
        };
        assert_eq!(sign(&[]), None);
        assert_eq!(sign(&[("container", "")]), None);
        for name in ["container", "KUBERNETES_SERVICE_HOST"] {
            assert_eq!(sign(&[(name, "x")]), Some(format!("the variable {name}")));
            assert_eq!(sign(&[(name, "x"), (VARIABLE, "0")]), None);
        }
        assert!(sign(&[(VARIABLE, "1")]).is_some_and(|text| text.contains(VARIABLE)));
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
