//! The engines of this build.

use uidring_store::StoreKind;
use uidring_store::options::{Owner, Takers};

use crate::rows::{CACHED, CLOCKED, DISPOSABLE, LEASED, ORDINAL, SEGMENT};
use crate::worker;

/// What to write instead of a URL whose engine is unknown.
pub const FORM: &str =
    "a URL such as sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or worker:N";

/// Options that apply only if the URL may choose a tag or the kind of worker ids.
const CHOSEN: &[&Owner] = &[&SEGMENT, &DISPOSABLE, &LEASED, &ORDINAL];

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

/// Returns the kind of store that a URL names; `worker::KIND` for `worker:`.
pub fn kind_of(url: &str) -> Result<&'static StoreKind, String> {
    if url.is_empty() {
        return Err("it is empty".into());
    }
    let scheme = url.strip_prefix("jdbc:").unwrap_or(url).split(':').next().unwrap_or_default();
    // A driver's name may follow after a `+`.
    let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
    let mut kinds = kinds();
    kinds.push(&worker::KIND);
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

/// Returns which options a URL of this kind may set.
pub fn takers(kind: &StoreKind) -> Takers {
    let (chosen, refuses) =
        if kind.has_own_workers { (&[][..], CHOSEN) } else { (CHOSEN, &[][..]) };
    Takers {
        takes: [&[kind.options, &CACHED, &CLOCKED], chosen].concat(),
        refuses,
        elsewhere: kinds().iter().map(|kind| kind.options).collect(),
    }
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
