//! Options of URLs that are also flags.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use uidring_any::table::FLAGS;
use uidring_store::options::{Kind, Row};

/// The options given as flags, each with its name. Unless `ALL`, there are no flags `--generator` and `--tag`.
pub struct OptionFlags<const ALL: bool>(Vec<(&'static str, String)>);

impl<const ALL: bool> OptionFlags<ALL> {
    /// Returns the given options, each with its name.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, &**value))
    }

    fn rows() -> impl Iterator<Item = &'static Row> {
        FLAGS.into_iter().filter(|row| ALL || !["generator", "tag"].contains(&row.name))
    }
}

impl<const ALL: bool> Args for OptionFlags<ALL> {
    fn augment_args(command: Command) -> Command {
        Self::rows().fold(command, |command, row| command.arg(flag(row)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for OptionFlags<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |row: &'static Row| {
            let value = matches.get_one::<String>(&id(row))?;
            Some((row.name, value.clone()))
        };
        Ok(Self(Self::rows().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Builds an option's flag. Its short help is the first sentence.
fn flag(row: &'static Row) -> Arg {
    let help = match row.default {
        "" => row.help.to_owned(),
        default => format!("{}. Without it: {default}", row.help),
    };
    let short = row.help.split(". ").next().unwrap_or(row.help);
    let short = match row.kind {
        Kind::Words(words) => format!("{short}: {}", words.join(", ")),
        _ => short.to_owned(),
    };
    let flag = Arg::new(id(row)).long(row.name).help(short).long_help(help);
    let flag = flag.allow_hyphen_values(true);
    let checked = |text: &str| row.check(text).map(|()| text.to_owned());
    match row.kind {
        Kind::Words(words) => flag
            .value_name(row.name.to_uppercase())
            // The help lists them already.
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(words.iter().copied())),
        Kind::Time(_) => flag.value_name("TIME").value_parser(checked),
        _ => flag.value_name(row.name.to_uppercase()).value_parser(checked),
    }
}

/// Returns the id that clap would derive from a field.
fn id(row: &Row) -> String {
    row.name.replace('-', "_")
}
