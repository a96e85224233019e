//! The program `uidring`: ids go to stdout, everything else to stderr. Its status is 0 for success, 1 for failure, 2
//! for wrong usage.

mod advice;
mod args;
#[cfg(feature = "bench")]
mod bench;
mod check;
mod doctor;
mod ending;
mod failure;
mod generate;
mod input;
mod lines;
mod man;
mod output;
mod pace;
mod parse;
mod plan;
mod plausible;
mod progress;
mod replaced;
mod report;
mod segment;
#[cfg(feature = "server")]
mod serve;
mod sink;
mod sort;
mod stdio;
mod table;
mod text;
mod urls;
mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use uidring::adapter::may_have_url;
use uidring_store::check_path;

use self::failure::Failure;
use self::report::ReportArgs;

/// Unique, roughly time-ordered 64-bit ids
#[derive(Parser)]
#[command(
    name = "uidring",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Counts may be written 1_000_000, 1e6 or 1M. Times may have a unit, as in 250ms, 30s, \
                  5m or 1h30m; without one, they are in the unit that the flag names."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Subcommand)]
enum Command {
    Generate(Box<generate::GenerateArgs>),
    Parse(parse::ParseArgs),
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    /// Manage the table of worker ids
    ///
    /// The table is in the store of --url; by default that is the file uidring/workers.db in your data directory.
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Manage the tags of segments
    ///
    /// A tag is a row of a table leaf_alloc, from which `uidring generate --tag` and SegmentGenerator load ranges of
    /// ids. The table is in the store of --url; by default that is the file uidring/segments.db in your data directory.
    #[command(subcommand)]
    Segment(segment::SegmentCommand),
    Doctor(doctor::DoctorArgs),
    /// Explain the URLs of stores
    // The page is the help.
    #[command(override_help = urls::page())]
    Urls,
    #[cfg(feature = "server")]
    Serve(Box<serve::ServeArgs>),
    /// Serve ids to clients of Redis, HTTP and others (not in this build: it needs the feature `server`)
    // Answers any arguments, even `--help`, with how to get it.
    #[cfg(not(feature = "server"))]
    #[command(disable_help_flag = true)]
    Serve {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    /// Measure what ids cost on this machine (not in this build: it needs the feature `bench`)
    // Answers any arguments, even `--help`, with how to get it.
    #[cfg(not(feature = "bench"))]
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  uidring completions bash > uidring.bash")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command into a folder, which is made if there is none
    #[command(after_help = "\
Examples:
  uidring man man1")]
    Man {
        /// The folder
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    #[cfg(unix)]
    ending::init::prepare();
    let done = command_line().and_then(|cli| {
        report::init(cli.report);
        run(cli.command)
    });
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Parses the command line. Prints help and clap's own errors, and then exits.
fn command_line() -> Result<Cli, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let is_help =
        !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && let Some(flag) = given.split('=').next()
        && let Some(instead) = replaced::flag(flag)
    {
        return Err(Failure::Usage(format!("there is no flag {flag}: {instead}")));
    }
    // clap's error repeats the arguments, and the URL of a database may hold a password.
    if !is_help && may_have_url(&error.render().to_string()) {
        return Err(Failure::Usage(
            "the command line has a URL in the wrong place; it is not repeated here, since it may \
             hold a password"
                .into(),
        ));
    }
    if !error.use_stderr() {
        // Help that cannot be printed is a failure; clap's own exit would ignore it.
        let mut output = stdio::stdout()?;
        error.print()?;
        output.flush()?;
    } else {
        if let Some((flag, variable)) = variable_of(&error) {
            let text = error.render().to_string().replacen(&flag, &variable, 1);
            let text = text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ");
            return Err(Failure::Usage(text.into()));
        }
        // If stderr cannot be written, there is nowhere to report it.
        let _ = error.print();
    }
    std::process::exit(error.exit_code())
}

/// If a wrong value comes from an environment variable, returns the flag that clap names, and the variable.
fn variable_of(error: &clap::Error) -> Option<(String, String)> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let long = flag.split([' ', '=']).next()?;
    let name = long.strip_prefix("--")?.replace('-', "_").to_uppercase();
    let variable = format!("UIDRING_SERVE_{name}");
    let is_given = std::env::args_os()
        .any(|word| word.to_str().is_some_and(|word| word.split('=').next() == Some(long)));
    (std::env::var_os(&variable).is_some() && !is_given).then(|| (flag.clone(), variable))
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Generate(args) => generate::run(&args),
        Command::Parse(args) => parse::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Worker(command) => worker::run(&command),
        Command::Segment(command) => segment::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Urls => stdio::print(&urls::page()),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::run(*args, Cli::command),
        #[cfg(not(feature = "server"))]
        Command::Serve { .. } => Err(Failure::NotBuilt { feature: "server" }),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        #[cfg(not(feature = "bench"))]
        Command::Bench { .. } => Err(Failure::NotBuilt { feature: "bench" }),
        Command::Completions { shell } => {
            // Generate into memory, because the generator panics if writing fails.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "uidring", &mut script);
            Ok(stdio::stdout()?.write_all(&script)?)
        }
        Command::Man { folder } => {
            check_path("the folder of man pages", &folder).map_err(Failure::usage)?;
            man::write(Cli::command(), &folder).map_err(|error| {
                Failure::Failed(format!("writing man pages into {}: {error}", folder.display()))
            })
        }
    }
}
