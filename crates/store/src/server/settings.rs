//! The options common to all servers.

use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::problem::Problem;
use crate::options::{CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, Given, MAX_CLOCK_DIFFERENCE};
use crate::{Finding, Verdict, warn_once};

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One attempt to connect, including name lookup and login.
    pub connect: Duration,
    /// An operation, including retries.
    pub deadline: Duration,
}

/// The options common to all servers.
#[derive(Clone)]
pub struct Settings {
    /// Time limits.
    pub limits: Limits,
    /// Whether to refuse servers that may lose commits.
    pub requires_durability: bool,
    /// Whether every server that answers has all commits.
    pub is_cluster: bool,
    /// How far the clocks of server and host may differ at a start.
    pub max_clock_difference: Option<Duration>,
    /// Where to send risks during an examination, instead of warning or failing.
    pub(super) risks: Option<Sender<Finding>>,
    /// The risks that were reported.
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

    /// How many risks an engine may number.
    const RISKS: usize = 5;
}

/// A server under inspection, and its options.
#[derive(Clone, Copy)]
pub struct Inspected<'a> {
    /// What errors call it.
    pub place: &'a (dyn fmt::Display + Sync),
    /// The options.
    pub settings: &'a Settings,
}

impl Inspected<'_> {
    /// Reports a risk of this server: refuses the server if durability is required, otherwise warns once.
    ///
    /// # Errors
    ///
    /// [`Problem::Refused`] with the explanation.
    pub fn report(self, risk: usize, explain: impl Fn() -> String) -> Result<(), Problem> {
        self.tell(risk, Verdict::Fault, explain)
    }

    /// Does the same for a risk that no setting of the server removes.
    ///
    /// # Errors
    ///
    /// As [`report`](Self::report).
    pub fn report_lasting(self, risk: usize, explain: impl Fn() -> String) -> Result<(), Problem> {
        self.tell(risk, Verdict::Risk, explain)
    }

    fn tell(
        self,
        risk: usize,
        verdict: Verdict,
        explain: impl Fn() -> String,
    ) -> Result<(), Problem> {
        if let Some(risks) = &self.settings.risks {
            // The examination receives it.
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
