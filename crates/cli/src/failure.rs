//! Why a command ended early, and how that is reported.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::time::Duration;

use uidring::adapter::Chain;
use uidring_store::TableError;

use crate::advice::with_flags;
use crate::report;
use uidring_store::values::shown;

/// Why a command ended early.
pub enum Failure {
    /// The command line is wrong: status 2.
    Usage(String),
    /// This build lacks a feature: status 2.
    #[cfg_attr(all(feature = "bench", feature = "server"), expect(dead_code))]
    NotBuilt { feature: &'static str },
    /// The command failed: status 1.
    Failed(String),
    /// The command did the rest, and has reported what failed: status 1.
    Reported,
    /// Nobody reads the output any more, which is not a failure: status 0.
    ClosedPipe,
}

impl Failure {
    /// Reports what the library says about a value of the command line.
    pub fn usage(error: impl Error + 'static) -> Self {
        Self::Usage(Chain(&error).to_string())
    }

    /// Adds these flags of a database to each command in the text.
    pub fn advised(self, flags: &str) -> Self {
        self.map(|text| with_flags(text, flags))
    }

    /// Adds the name of what failed.
    #[cfg(feature = "server")]
    pub fn about(self, name: &str) -> Self {
        self.map(|text| format!("{name}: {text}"))
    }

    fn map(self, change: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(change(&text)),
            Self::Failed(text) => Self::Failed(change(&text)),
            other => other,
        }
    }

    /// Returns the text, for a command that goes on.
    #[cfg(feature = "server")]
    pub fn text(self) -> String {
        match self {
            Self::Usage(text) | Self::Failed(text) => text,
            _ => String::new(),
        }
    }

    /// Prints the failure, and returns the program's exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Self::ClosedPipe => return ExitCode::SUCCESS,
            Self::Reported => return ExitCode::FAILURE,
            Self::Failed(text) => {
                report::error(text);
                return ExitCode::FAILURE;
            }
            Self::NotBuilt { feature } => report::error(format_args!(
                "this uidring was built without the feature `{feature}`; build it with \
                 `cargo build --release -p uidring-cli --features {feature}`, or with \
                 `--features full` for all features"
            )),
            Self::Usage(text) => report::wrong_usage(text),
        }
        ExitCode::from(2)
    }
}

/// Errors of options that only the library can check, such as those that depend on a server, are put in the words of
/// the command line.
impl From<uidring::Error> for Failure {
    fn from(error: uidring::Error) -> Self {
        // Found by a store, but caused by the command line or the environment.
        if let Some(
            TableError::Invalid { .. } | TableError::UrlForPath { .. } | TableError::Lacks { .. },
        ) = error.store()
        {
            return Self::usage(error);
        }
        let uidring::Error::OptionOutOfRange { option, value, min, max } = error else {
            return Self::Failed(Chain(&error).to_string());
        };
        let (option, text): (_, fn(u64) -> String) = match option.strip_suffix(" (ms)") {
            Some(option) => (option, |millis| shown(Duration::from_millis(millis))),
            None => (option, |number| number.to_string()),
        };
        let range = match max {
            u64::MAX => format!("at least {} is needed", text(min)),
            max => format!("{} to {} are allowed", text(min), text(max)),
        };
        let option = option.replace('_', "-");
        Self::Usage(format!("{option} {} is out of range: {range}", text(value)))
    }
}

/// For writing to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Failed(format!("writing the output: {error}"))
        }
    }
}
