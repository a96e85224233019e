//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
Measures uidring against other id generators, interleaved in one process.

Usage: uidring-rivals [--processes] [--rounds N] [--slice-ms N] [--raw FILE] [--only SUBSTRING]

  --processes       measures processes that share a ring instead, and what they share
                    today; needs Linux and redis-server
  --rounds N        rounds per shape (15 if not set)
  --slice-ms N      how long a contestant runs in each round (75 if not set)
  --raw FILE        writes every measurement to FILE as CSV
  --only SUBSTRING  only contestants whose `shape/name` contains this, and the
                    two that the ratios are taken to; of --processes also `idle` and `dry`
  --help            this text
";

#[derive(Debug)]
pub struct Args {
    pub processes: bool,
    pub rounds: usize,
    pub slice: Duration,
    pub raw: Option<PathBuf>,
    pub only: Option<String>,
}

/// Why not to measure.
#[derive(Debug)]
pub enum Stop {
    Help,
    Wrong(String),
}

impl Args {
    /// Reads the arguments after the program's name.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Stop> {
        let mut args = Self {
            processes: false,
            rounds: 15,
            slice: Duration::from_millis(75),
            raw: None,
            only: None,
        };
        while let Some(flag) = words.next() {
            if flag == "--help" || flag == "-h" {
                return Err(Stop::Help);
            }
            if flag == "--processes" {
                args.processes = true;
                continue;
            }
            let mut value =
                || words.next().ok_or_else(|| Stop::Wrong(format!("{flag} needs a value")));
            match flag.as_str() {
                "--rounds" => args.rounds = number(&flag, &value()?, 10_000)? as usize,
                "--slice-ms" => {
                    args.slice = Duration::from_millis(number(&flag, &value()?, 60_000)?);
                }
                "--raw" => args.raw = Some(value()?.into()),
                "--only" => args.only = Some(value()?),
                _ => return Err(Stop::Wrong(format!("unknown argument {flag}"))),
            }
        }
        Ok(args)
    }
}

fn number(flag: &str, text: &str, max: u64) -> Result<u64, Stop> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(Stop::Wrong(format!("{flag} needs a whole number from 1 to {max}, not {text}"))),
    }
}
