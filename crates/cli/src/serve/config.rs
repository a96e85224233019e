//! `serve.toml`: flags as keys, and names in tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Args, Command, FromArgMatches};
use toml::{Table, Value};
use uidring_store::read_small_file;

use super::args::{NameArgs, ServeArgs};
use crate::failure::Failure;

/// Of these, a flag or a variable replaces the file's whole choice.
const CHOICES: [&[&str]; 1] = [&[
    "sqlite",
    "mysql",
    "mysql-url-file",
    "postgres",
    "postgres-url-file",
    "etcd",
    "zookeeper",
    "worker-id",
]];

/// What is no setting.
const NOT_SETTINGS: [&str; 4] = ["config", "check", "help", "names"];

/// The names of the file, each with its flags.
pub type Names = BTreeMap<String, NameArgs>;

/// Reads the settings again, with those of the file where the command line and the environment say nothing.
pub fn load(
    path: &Path,
    command: fn() -> Command,
    command_line: &[OsString],
) -> Result<(ServeArgs, Names), Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        Failure::Usage(format!("{}: {}", path.display(), without_url(text.trim_end())))
    };
    let text = read_small_file(path)
        .map_err(|error| Failure::Failed(format!("reading {}: {error}", path.display())))?;
    let text = String::from_utf8(text).map_err(|_| wrong(&"it is no UTF-8 text"))?;
    // What stands in the file may be secret: the error names a place, and shows no line.
    let mut table: Table = toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let line = before.matches('\n').count() + 1;
        wrong(&format_args!("line {line}: {}", error.message()))
    })?;
    let names = match table.remove("names") {
        None => Table::new(),
        Some(Value::Table(names)) => names,
        Some(_) => return Err(wrong(&"`names` is for tables: [names.orders]")),
    };
    let serve = command();
    let serve = serve.find_subcommand("serve").expect("it is one");
    for (key, value) in &table {
        check_setting(serve, key, value, "setting").map_err(|problem| {
            wrong(&format_args!("{problem}; `uidring serve --help` lists the settings"))
        })?;
    }
    let given = command().try_get_matches_from(command_line);
    let given = given.map_err(|error| wrong(&plain(&error)))?;
    if let Some(("serve", given)) = given.subcommand() {
        let is_given = |key: &str| {
            matches!(
                given.value_source(&key.replace('-', "_")),
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            )
        };
        for keys in CHOICES.iter().filter(|keys| keys.iter().any(|key| is_given(key))) {
            table.retain(|key, _| !keys.contains(&key));
        }
        table.retain(|key, _| !is_given(key));
    }
    let flags = table.iter().filter_map(|(key, value)| flag_of(key, value)).map(OsString::from);
    let command_line: Vec<OsString> = command_line.iter().cloned().chain(flags).collect();
    let matches = command().try_get_matches_from(command_line);
    let matches = matches.map_err(|error| wrong(&plain(&error)))?;
    let args = match matches.subcommand() {
        Some(("serve", matches)) => ServeArgs::from_arg_matches(matches),
        _ => return Err(wrong(&"the command line is not one of `uidring serve`")),
    };
    let args = args.map_err(|error| wrong(&plain(&error)))?;
    let mut all = Names::new();
    for (name, settings) in names {
        let flags = named(&name, settings).map_err(|text| wrong(&text))?;
        all.insert(name, flags);
    }
    Ok((args, all))
}

/// The flags of a name's table.
fn named(name: &str, settings: Value) -> Result<NameArgs, String> {
    let Value::Table(settings) = settings else {
        return Err(format!("`names.{name}` is for a table: [names.{name}]"));
    };
    let command = NameArgs::augment_args(Command::new("names").no_binary_name(true));
    let mut flags = Vec::new();
    for (key, value) in &settings {
        check_setting(&command, key, value, "setting of a name")
            .map_err(|problem| format!("names.{name}: {problem}"))?;
        flags.extend(flag_of(key, value));
    }
    let matches = command.try_get_matches_from(flags);
    let args = matches.and_then(|matches| NameArgs::from_arg_matches(&matches));
    args.map_err(|error| format!("names.{name}: {}", plain(&error)))
}

/// Refuses a key that is no flag, and a value that its flag cannot have. `what` is what keys are.
fn check_setting(command: &Command, key: &str, value: &Value, what: &str) -> Result<(), String> {
    let find = |key: &str| {
        let mut flags = command.get_arguments();
        flags.find(|flag| flag.get_long() == Some(key) && !NOT_SETTINGS.contains(&key))
    };
    let Some(flag) = find(key) else {
        let other = key.replace('_', "-");
        return Err(match find(&other) {
            Some(_) => format!("`{key}` is no {what}; it is written `{other}`"),
            None => format!("`{key}` is no {what}"),
        });
    };
    match (flag.get_action().takes_values(), value) {
        (true, Value::Boolean(_) | Value::Array(_) | Value::Table(_)) => {
            Err(format!("the value of `{key}` has to be a text or a number"))
        }
        (true, _) | (false, Value::Boolean(_)) => Ok(()),
        (false, _) => Err(format!("the value of `{key}` has to be true or false, without quotes")),
    }
}

/// A setting as a flag; none for `false`.
fn flag_of(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Boolean(true) => Some(format!("--{key}")),
        Value::Boolean(false) => None,
        value => Some(format!("--{key}={}", text_of(value)?)),
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is_true) => Some(is_true.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

/// What clap found wrong, in one line, and without the URL that a value may be.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = without_url(text.trim_start_matches("error: "));
    text.split("\n\n").next().unwrap_or(text).replace('\n', " ")
}

/// What is said, unless it repeats a URL.
fn without_url(text: &str) -> &str {
    match text.contains("://") {
        true => {
            "a URL stands where it does not belong; it may hold a password, and is not repeated"
        }
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// As in the docs, and with what is refused.
    const FILES: [&str; 3] = [
        "mysql = \"mysql://u:s3cretpw@h/d\"\nthreads = 4\nredis = 'none'\n\n[names.orders]\npreset = 'leaf'\n",
        "postgres = 'postgres://u:s3cretpw@h/d'\nmax-batch = 1_000\nidle = \"5m\"\nworker-id = 3\n",
        "'mysql://u:s3cretpw@h/d' = 5\nsqlite = 1979-05-27\nnames = { a = { step = 1.5 }, b = [] }\n",
    ];

    const LETTERS: [char; 18] = [
        '"', '\'', '=', '[', ']', '{', '}', '.', ',', '\n', '\\', '#', 'é', '\0', ' ', '0', 'a',
        '-',
    ];

    /// A file with some characters left out, doubled, moved or replaced.
    fn changed(text: &str, random: &mut fastrand::Rng) -> String {
        let mut text: Vec<char> = text.chars().collect();
        for _ in 0..random.usize(..4) {
            let [from, to] = [random.usize(..text.len()), random.usize(..text.len())];
            let letter = random.choice(LETTERS).unwrap_or(' ');
            match random.u8(..4) {
                0 => drop(text.remove(from)),
                1 => text.insert(from, letter),
                2 => text[from] = letter,
                _ => text.swap(from, to),
            }
        }
        text.into_iter().collect()
    }

    /// Whatever is wrong with a file, the error is a line, and shows no password.
    #[test]
    fn a_changed_file_is_read_or_refused_in_silence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.toml");
        let words = ["uidring", "serve"].map(OsString::from);
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut read, mut refused) = (0, 0);
        for round in 0..600 {
            let text = changed(FILES[round % FILES.len()], &mut random);
            std::fs::write(&path, &text).expect("writes");
            match load(&path, crate::Cli::command, &words) {
                Ok(_) => read += 1,
                Err(Failure::Usage(error) | Failure::Failed(error)) => {
                    refused += 1;
                    // A changed password is none; without its colon or slashes a URL is not known for one.
                    let is_url = text.contains("://u:s3cretpw@");
                    assert!(!is_url || !error.contains("s3cretpw"), "seed {seed}: {text}: {error}");
                    assert!(!error.contains('\n'), "seed {seed}: {error:?}");
                }
                Err(_) => panic!("seed {seed}: {text}"),
            }
        }
        assert!(read > 10 && refused > 200, "{read} read, {refused} refused");
    }
}
