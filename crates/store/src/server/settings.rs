//! The options that every server has.

use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::problem::Problem;
use crate::options::{CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, Given, MAX_CLOCK_DIFFERENCE};
use crate::{Finding, Verdict, warn_once};

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
    /// How far the server's clock and this host's may differ at a start.
    pub max_clock_difference: Option<Duration>,
    /// Where an examination is told of risks, which neither warns of them nor fails.
    pub(super) risks: Option<Sender<Finding>>,
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
            max_clock_difference: None,
            risks: None,
            reported: Arc::default(),
        }
    }
}

impl Settings {
    /// The settings of a URL.
    pub(super) fn of(given: &Given) -> Self {
        let mut settings = Self::default();
        let limits = &mut settings.limits;
        limits.connect = given.time(&CONNECT_TIMEOUT).unwrap_or(limits.connect);
        limits.deadline = given.time(&DEADLINE).unwrap_or(limits.deadline);
        settings.requires_durability = given.is(&DURABILITY, "require");
        settings.is_cluster = given.is(&CLUSTER, "synchronous");
        settings.max_clock_difference = given.time(&MAX_CLOCK_DIFFERENCE);
        settings
    }

    /// How many risks a store may number.
    const RISKS: usize = 5;
}

/// A server that is checked, with what its operator asked for.
#[derive(Clone, Copy)]
pub struct Inspected<'a> {
    /// What people call it.
    pub place: &'a (dyn fmt::Display + Sync),
    /// The options.
    pub settings: &'a Settings,
}

impl Inspected<'_> {
    /// Warns of a risk of this server once, or refuses it, as the options say.
    ///
    /// # Errors
    ///
    /// [`Problem::Refused`] with the explanation.
    pub fn report<F>(self, risk: usize, explain: impl Fn() -> String) -> Result<(), Problem<F>> {
        self.tell(risk, Verdict::Fault, explain)
    }

    /// The same, for a risk that no setting removes.
    ///
    /// # Errors
    ///
    /// As [`report`](Self::report).
    pub fn report_lasting<F>(
        self,
        risk: usize,
        explain: impl Fn() -> String,
    ) -> Result<(), Problem<F>> {
        self.tell(risk, Verdict::Risk, explain)
    }

    fn tell<F>(
        self,
        risk: usize,
        verdict: Verdict,
        explain: impl Fn() -> String,
    ) -> Result<(), Problem<F>> {
        if let Some(risks) = &self.settings.risks {
            // It is received as long as the examination lasts.
            let _ = risks.send(Finding { about: "durability", verdict, text: explain() });
            return Ok(());
        }
        if self.settings.requires_durability {
            return Err(Problem::Refused(explain()));
        }
        if self.settings.reported[risk].set(()).is_ok() {
            warn_once(format!("{}: {}", self.place, explain()));
        }
        Ok(())
    }
}
