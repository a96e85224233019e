//! Why a command ended early, and how that is reported.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Why a command ended early.
pub enum Failure {
    /// The command line is wrong: status 2.
    Usage(String),
    /// This build lacks a feature: status 2.
    #[cfg_attr(
        all(feature = "bench", feature = "mysql", feature = "sqlite", feature = "zookeeper"),
        expect(dead_code)
    )]
    NotBuilt { feature: &'static str },
    /// The command failed: status 1.
    Failed(String),
    /// The command did the rest, and has reported what failed: status 1.
    Reported,
    /// Nobody reads the output any more, which is no failure: status 0.
    ClosedPipe,
}

impl Failure {
    /// What the library says about a value of the command line.
    pub fn usage(error: impl Error) -> Self {
        Self::Usage(with_sources(&error))
    }

    /// Prints the failure, and returns the program's exit code.
    pub fn report(self) -> ExitCode {
        let (text, status) = match self {
            Self::ClosedPipe => return ExitCode::SUCCESS,
            Self::Reported => return ExitCode::FAILURE,
            Self::Failed(text) => (text, 1),
            Self::NotBuilt { feature } => (
                format!(
                    "this uidring was built without the feature `{feature}`; build it with \
                     `cargo build --release -p uidring-cli --features {feature}`, or with \
                     `--features full` for all features"
                ),
                2,
            ),
            Self::Usage(text) => (format!("{text}\n\nFor more information, try '--help'."), 2),
        };
        eprintln!("error: {text}");
        ExitCode::from(status)
    }
}

impl From<uidring::Error> for Failure {
    fn from(error: uidring::Error) -> Self {
        Self::Failed(with_sources(&error))
    }
}

impl From<uidring::TakeError> for Failure {
    fn from(error: uidring::TakeError) -> Self {
        Self::Failed(with_sources(&error))
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

/// Returns the error and its sources, as in `message: cause: cause`. Some errors repeat their source
/// in their own text: that is left out.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
