//! `uidring`: ids on stdout, everything else on stderr; status 0 done, 1 failed, 2 wrong usage.

mod args;
#[cfg(feature = "bench")]
mod bench;
mod ending;
mod generate;
mod lease;
mod lines;
mod output;
mod parse;
mod plan;
mod registry;
mod segment;
mod stdio;
mod table;
mod text;
mod worker;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::error::ErrorKind as UsageKind;
use clap::{CommandFactory, Parser};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use uidring::adapter::Chain;

use self::args::{Cli, Command};

/// Why a command ended early.
enum Failure {
    /// The words of the command line are wrong: status 2.
    Usage(String),
    /// This build cannot do it: status 2.
    #[cfg_attr(
        all(feature = "bench", feature = "mysql", feature = "sqlite", feature = "zookeeper"),
        expect(dead_code)
    )]
    NotBuilt { feature: &'static str },
    /// It could not be done: status 1.
    Failed(String),
    /// It was done but for what has been reported already: status 1.
    Reported,
    /// Nobody reads our output any more, which is no failure: status 0.
    ClosedPipe,
}

impl Failure {
    fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<uidring::Error> for Failure {
    fn from(error: uidring::Error) -> Self {
        Self::Failed(Chain(&error).to_string())
    }
}

impl From<uidring::TakeError> for Failure {
    fn from(error: uidring::TakeError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Writing to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Failed(format!("writing the output: {error}"))
        }
    }
}

fn main() -> ExitCode {
    output::set_closed(stdio::stdout_is_closed());
    // Warnings of the library, as one line each. Of what its ZooKeeper client would say at every
    // attempt the library tells itself, once.
    let told =
        Targets::new().with_default(Level::WARN).with_target("zookeeper_client", LevelFilter::OFF);
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .finish()
        .with(told)
        .init();
    let done = words().and_then(|cli| run(cli.command));
    match done {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Failed(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
        Err(Failure::NotBuilt { feature }) => {
            eprintln!(
                "error: this uidring was built without the feature `{feature}`; build it with \
                 `cargo build --release -p uidring-cli --features {feature}`, or with all that there \
                 is by `--features full`"
            );
            ExitCode::from(2)
        }
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}\n\nFor more information, try '--help'.");
            ExitCode::from(2)
        }
    }
}

/// The words of the command line. What clap has to say about them it prints itself, and ends.
fn words() -> Result<Cli, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let is_help =
        !error.use_stderr() || error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand;
    // clap repeats what it was given, and the URL of a database holds a password.
    if !is_help && error.render().to_string().contains("://") {
        return Err(Failure::usage(
            "a URL stands where none belongs; it is not repeated here, since it may hold a password",
        ));
    }
    error.exit()
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Generate(args) => generate::run(&args),
        Command::Parse(args) => parse::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Segment(args) => segment::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        #[cfg(not(feature = "bench"))]
        Command::Bench { .. } => Err(Failure::NotBuilt { feature: "bench" }),
        Command::Completions { shell } => {
            // First into memory: the generator panics where writing fails.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "uidring", &mut script);
            output::stdout()?.write_all(&script).map_err(Failure::from)
        }
    }
}
