//! The options that every server has.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::warn_once;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One attempt to connect, name look-up and login included.
    pub connect: Duration,
    /// An operation with all its attempts.
    pub deadline: Duration,
}

/// The options that every server has.
#[derive(Clone)]
pub struct Settings {
    /// How long things may take.
    pub limits: Limits,
    /// Whether servers that may lose commits are refused.
    pub requires_durability: bool,
    /// Whether any server that answers is a good one.
    pub is_cluster: bool,
    /// Which risks of the server were reported.
    reported: Arc<[OnceLock<()>; Settings::RISKS]>,
}

impl Default for Settings {
    fn default() -> Self {
        let (connect, deadline) = (Duration::from_secs(5), Duration::from_secs(10));
        Self {
            limits: Limits { connect, deadline },
            requires_durability: false,
            is_cluster: false,
            reported: Arc::default(),
        }
    }
}

impl Settings {
    /// How many risks a store may number.
    const RISKS: usize = 5;

    /// Warns of a risk of this server once, or refuses it, as the options say.
    ///
    /// # Errors
    ///
    /// The explanation.
    pub fn report(
        &self,
        server: &impl fmt::Display,
        risk: usize,
        explain: impl Fn() -> String,
    ) -> Result<(), String> {
        if self.requires_durability {
            return Err(explain());
        }
        if self.reported[risk].set(()).is_ok() {
            warn_once(format!("{server}: {}", explain()));
        }
        Ok(())
    }
}
