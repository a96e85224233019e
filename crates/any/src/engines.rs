//! The engines of this build.

use uidring_store::StoreKind;

/// Lists the engines: feature, schemes that do not start with its name, crate.
macro_rules! engines {
    ($($feature:literal $(| $scheme:literal)* => $engine:ident),+ $(,)?) => {
        /// The engines that this build has.
        pub fn kinds() -> Vec<&'static StoreKind> {
            vec![$(#[cfg(feature = $feature)] &$engine::KIND),+]
        }

        /// The features of missing engines, and what the schemes of their URLs start with.
        const MISSING: &[(&str, &[&str])] =
            &[$(#[cfg(not(feature = $feature))] ($feature, &[$feature $(, $scheme)*])),+];
    };
}

engines! {
    "sqlite" => uidring_sqlite,
    "mysql" | "mariadb" | "trilogy" => uidring_mysql,
    "postgres" | "postgis" => uidring_postgres,
    "etcd" => uidring_etcd,
    "zookeeper" => uidring_zookeeper,
}

/// Returns the engine of a URL's scheme.
pub fn kind_of(url: &str) -> Result<&'static StoreKind, String> {
    let scheme = url.strip_prefix("jdbc:").unwrap_or(url).split(':').next().unwrap_or_default();
    // A driver's name may follow after a `+`.
    let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
    let kinds = kinds();
    if let Some(kind) = kinds.iter().find(|kind| kind.schemes.contains(&&*scheme)) {
        return Ok(kind);
    }
    let is_of = |schemes: &[&str]| schemes.iter().any(|start| scheme.starts_with(start));
    if let Some((feature, _)) = MISSING.iter().find(|(_, schemes)| is_of(schemes)) {
        return Err(format!(
            "this build has no {feature}; build with the feature `{feature}` (cargo build --features {feature})"
        ));
    }
    let begins: Vec<_> = kinds
        .iter()
        .map(|kind| format!("{}:{}", kind.schemes[0], if kind.is_file { "" } else { "//" }))
        .chain(["worker:".into()])
        .collect();
    let missing = match MISSING {
        [] => String::new(),
        missing => {
            let features: Vec<_> = missing.iter().map(|(feature, _)| *feature).collect();
            format!("; other engines need a feature: {}", features.join(", "))
        }
    };
    Err(format!("it begins with none of {}{missing}", begins.join(", ")))
}

#[cfg(all(test, not(feature = "mysql")))]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_an_engine_that_is_not_built_names_its_feature() {
        for scheme in ["mysql", "mysql2", "mariadb", "trilogy"] {
            let error = kind_of(&format!("{scheme}://u@h/d")).expect_err(scheme);
            assert!(error.contains("build with the feature `mysql`"), "{error}");
        }
    }
}
