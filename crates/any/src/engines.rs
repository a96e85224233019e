//! The engines of this build.

use uidring_store::StoreKind;

/// Lists the engines: the feature of each, and its crate.
macro_rules! engines {
    ($($feature:literal => $engine:ident),+ $(,)?) => {
        /// Returns the engines of this build.
        pub fn kinds() -> Vec<&'static StoreKind> {
            vec![$(#[cfg(feature = $feature)] &$engine::KIND),+]
        }

        /// The features of engines that this build does not have.
        const MISSING: &[&str] = &[$(#[cfg(not(feature = $feature))] $feature),+];
    };
}

engines! {
    "sqlite" => uidring_sqlite,
    "mysql" => uidring_mysql,
    "postgres" => uidring_postgres,
    "etcd" => uidring_etcd,
    "zookeeper" => uidring_zookeeper,
}

/// Returns the engine whose URLs begin like this one.
pub fn kind_of(url: &str) -> Result<&'static StoreKind, String> {
    let scheme = url.strip_prefix("jdbc:").unwrap_or(url).split(':').next().unwrap_or_default();
    // A driver's name may follow after a `+`.
    let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
    let kinds = kinds();
    if let Some(kind) = kinds.iter().find(|kind| kind.schemes.contains(&&*scheme)) {
        return Ok(kind);
    }
    if let Some(feature) = MISSING.iter().find(|feature| scheme.starts_with(**feature)) {
        return Err(format!("this build has no {feature}; build with the feature `{feature}`"));
    }
    let begins: Vec<_> = kinds
        .iter()
        .map(|kind| format!("{}:{}", kind.schemes[0], if kind.is_file { "" } else { "//" }))
        .chain(["worker:".into()])
        .collect();
    let missing = match MISSING {
        [] => String::new(),
        missing => format!("; other engines need a feature: {}", missing.join(", ")),
    };
    Err(format!("it begins with none of {}{missing}", begins.join(", ")))
}
