//! Why a command ended early, and how that is reported.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use uidring::adapter::Chain;

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
    pub fn usage(error: impl Error + 'static) -> Self {
        Self::Usage(Chain(&error).to_string())
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
        Self::Failed(Chain(&error).to_string())
    }
}

impl From<uidring::TakeError> for Failure {
    fn from(error: uidring::TakeError) -> Self {
        Self::Failed(Chain(&error).to_string())
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
