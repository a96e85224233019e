//! `uidring`: ids on stdout, everything else on stderr; status 0 done, 1 failed, 2 wrong usage.

mod args;
#[cfg(feature = "bench")]
mod bench;
mod ending;
mod failure;
mod generate;
mod lines;
mod output;
mod parse;
mod plan;
mod progress;
mod segment;
mod stdio;
mod stores;
mod table;
mod text;
mod worker;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::failure::Failure;

/// Unique, roughly time-ordered 64-bit ids
#[derive(Parser)]
#[command(name = "uidring", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Generate(Box<generate::GenerateArgs>),
    Parse(parse::ParseArgs),
    Plan(plan::PlanArgs),
    /// Manage the table of worker ids
    ///
    /// The table is in the database of --sqlite or --mysql (--mysql-url-file), else of the environment
    /// variable UIDRING_MYSQL_URL, else in the file uidring/workers.db in your data directory.
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Manage the tags of segments
    ///
    /// A tag is a row of a table leaf_alloc, from which `uidring generate --generator segment` and
    /// SegmentGenerator load ranges of ids. The table is in the database of --sqlite or --mysql
    /// (--mysql-url-file), else of the environment variable UIDRING_MYSQL_URL, else in the file
    /// uidring/segments.db in your data directory.
    #[command(subcommand)]
    Segment(segment::SegmentCommand),
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    /// Measure what ids cost on this machine (not in this build: it needs the feature `bench`)
    // Whatever is asked of it, help included, the answer is how to get it.
    #[cfg(not(feature = "bench"))]
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    // Warnings, a line each. The ZooKeeper client warns at every attempt; the library logs what matters, once.
    let levels =
        Targets::new().with_default(Level::WARN).with_target("zookeeper_client", LevelFilter::OFF);
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .finish()
        .with(levels)
        .init();
    match command().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Parses the command line. clap prints what it finds wrong with it, or the help, and exits.
fn command() -> Result<Command, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli.command),
        Err(error) => error,
    };
    let is_help =
        !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    // clap repeats what it was given, and the URL of a database holds a password.
    if !is_help && error.render().to_string().contains("://") {
        return Err(Failure::Usage(
            "the command line has a URL in the wrong place; it is not repeated here, since it may \
             hold a password"
                .into(),
        ));
    }
    error.exit()
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Generate(args) => generate::run(&args),
        Command::Parse(args) => parse::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Worker(command) => worker::run(&command),
        Command::Segment(command) => segment::run(&command),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        #[cfg(not(feature = "bench"))]
        Command::Bench { .. } => Err(Failure::NotBuilt { feature: "bench" }),
        Command::Completions { shell } => {
            // First into memory: the generator panics where writing fails.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "uidring", &mut script);
            Ok(stdio::stdout()?.write_all(&script)?)
        }
    }
}
