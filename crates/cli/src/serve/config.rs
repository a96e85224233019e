//! `serve.toml`: flags as keys, names as tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Command, FromArgMatches};
use toml::{Table, Value};
use uidring::adapter::may_have_url;
use uidring_store::{check_path, read_small_file};

use super::args::ServeArgs;
use crate::args::url::UrlArgs;
use crate::failure::Failure;
use crate::replaced;

/// Flags that are not settings.
const NOT_SETTINGS: [&str; 2] = ["config", "check"];

/// Settings that are read here, not as the flags of these names.
const NO_FLAGS: [&str; 6] = ["url", "url-file", "start-after", "layout", "max-borrow", "worker"];

/// What a file says besides flags.
#[derive(Default)]
pub struct File {
    pub path: PathBuf,
    /// The file, for errors.
    pub place: String,
    /// The settings above all tables.
    pub settings: Settings,
    /// The names with a table.
    pub names: BTreeMap<String, Settings>,
}

/// Settings of a name that are not flags.
#[derive(Default)]
pub struct Settings {
    /// Where its ids come from.
    pub url: Option<UrlArgs>,
    /// Options of the URL, and their values.
    pub options: Vec<(String, String)>,
}

/// Reads the settings again, and adds those of the file that neither command line nor environment gives.
pub fn load(
    path: &Path,
    command: fn() -> Command,
    command_line: &[OsString],
) -> Result<(ServeArgs, File), Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        Failure::Usage(format!("{}: {}", path.display(), without_url(text.trim_end())))
    };
    check_path("the settings", path).map_err(Failure::usage)?;
    let text = read_small_file(path)
        .map_err(|error| Failure::Failed(format!("reading {}: {error}", path.display())))?;
    let text = String::from_utf8(text).map_err(|_| wrong(&"it is not UTF-8"))?;
    // The file may hold secrets, so the error names the line, but does not quote it.
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
    let parse = |words: &[OsString]| {
        let parsed = command().try_get_matches_from(words);
        let parsed = parsed.map_err(|error| wrong(&plain(&error)))?.remove_subcommand();
        let parsed = parsed.filter(|(name, _)| name == "serve").map(|(_, serve)| serve);
        parsed.ok_or_else(|| wrong(&"the command line is not one of `uidring serve`"))
    };
    let given = parse(command_line)?;
    let is_given = |key: &str| {
        let source = given.value_source(&key.replace('-', "_"));
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let serve = command();
    let serve = serve.find_subcommand("serve").expect("it is one");
    let is_flag = |key: &str| {
        let mut flags = serve.get_arguments();
        !NO_FLAGS.contains(&key) && flags.any(|flag| flag.get_long() == Some(key))
    };
    let (table, others): (Table, Table) = table.into_iter().partition(|(key, _)| is_flag(key));
    let mut words = command_line.to_vec();
    for (key, value) in &table {
        let flag = flag_of(serve, key, value).map_err(|problem| {
            wrong(&format_args!("{problem}; `uidring serve --help` lists the settings"))
        })?;
        words.extend(flag.filter(|_| !is_given(key)).map(OsString::from));
    }
    // Advice may name the form of a URL, but never quotes one.
    let advised = |problem: String| Failure::Usage(format!("{}: {problem}", path.display()));
    let settings = Settings::of(others, is_flag).map_err(advised)?;
    let args = ServeArgs::from_arg_matches(&parse(&words)?);
    let args = args.map_err(|error| wrong(&plain(&error)))?;
    let place = format!("in {}", path.display());
    let mut file = File { path: path.into(), place, settings, names: BTreeMap::new() };
    for (name, settings) in names {
        let Value::Table(settings) = settings else {
            return Err(wrong(&format_args!("`names.{name}` is for a table: [names.{name}]")));
        };
        if may_have_url(&name) {
            return Err(wrong(&name));
        }
        if let Some(key) = settings.keys().find(|key| is_flag(key)) {
            return Err(wrong(&format_args!("names.{name}: `{key}` is no setting of a name")));
        }
        let settings = Settings::of(settings, |_| false);
        let settings = settings.map_err(|problem| advised(format!("names.{name}: {problem}")))?;
        file.names.insert(name, settings);
    }
    Ok((args, file))
}

impl Settings {
    /// Reads what is not a flag. Setting the options later finds unknown ones.
    fn of(table: Table, is_flag: impl Fn(&str) -> bool) -> Result<Self, String> {
        let mut settings = Self::default();
        for (key, value) in table {
            // Any other key may be a URL.
            if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
                return Err("a key is no word; it may hold a password, and is not repeated".into());
            }
            let hyphens = key.replace('_', "-");
            let is_known =
                |key: &str| is_flag(key) || NO_FLAGS.contains(&key) || replaced::is_option(key);
            if hyphens != key && is_known(&hyphens) {
                return Err(format!("`{key}` is written `{hyphens}`"));
            }
            let text = text_of(&value).ok_or_else(|| match value {
                Value::Table(_) => {
                    format!("there is no table [{key}]: a name has one, as in [names.orders]")
                }
                _ => format!("the value of `{key}` has to be a text or a number"),
            })?;
            match &*key {
                "url" | "url-file" if settings.url.is_some() => {
                    return Err(
                        "`url` and `url-file` both name the store; leave one of them out".into()
                    );
                }
                "url" => settings.url = Some(UrlArgs { url: Some(text), url_file: None }),
                "url-file" => {
                    settings.url = Some(UrlArgs { url: None, url_file: Some(text.into()) });
                }
                "start-after" => {
                    return Err(
                        "`start-after` is a flag alone: in a file it would soon be too low".into(),
                    );
                }
                _ => match replaced::key(&key) {
                    Some(instead) => return Err(format!("`{key}` is no setting: {instead}")),
                    None => settings.options.push((key, text)),
                },
            }
        }
        Ok(settings)
    }
}

/// Returns a setting as a flag; `None` for `false`. Fails if there is no such setting, or the value is of the wrong
/// type.
fn flag_of(command: &Command, key: &str, value: &Value) -> Result<Option<String>, String> {
    let mut flags = command.get_arguments();
    let flag = flags.find(|flag| flag.get_long() == Some(key) && !NOT_SETTINGS.contains(&key));
    let flag = flag.ok_or_else(|| format!("`{key}` is no setting"))?;
    match (flag.get_action().takes_values(), value) {
        (false, Value::Boolean(is_set)) => Ok(is_set.then(|| format!("--{key}"))),
        (false, _) => Err(format!("the value of `{key}` has to be true or false, without quotes")),
        (true, Value::Boolean(_) | Value::Array(_) | Value::Table(_)) => {
            Err(format!("the value of `{key}` has to be a text or a number"))
        }
        (true, value) => Ok(text_of(value).map(|text| format!("--{key}={text}"))),
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

/// Returns clap's error on one line, without a URL that a value may be.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = without_url(text.trim_start_matches("error: "));
    text.split("\n\n").next().unwrap_or(text).replace('\n', " ")
}

/// Returns the text, unless it quotes a URL.
fn without_url(text: &str) -> &str {
    match may_have_url(text) {
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
        "url = \"mysql://u:s3cretpw@h/d\"\nthreads = 4\nredis = 'none'\n\n[names.orders]\nlayout = 'leaf'\n",
        "url = 'postgres://u:s3cretpw@h/d'\nmax-batch = 1_000\nidle = \"5m\"\nmax-lag = 3\n",
        "'mysql://u:s3cretpw@h/d' = 5\nurl = 1979-05-27\nnames = { a = { step = 1.5 }, b = [] }\n",
    ];

    const LETTERS: [char; 18] = [
        '"', '\'', '=', '[', ']', '{', '}', '.', ',', '\n', '\\', '#', 'é', '\0', ' ', '0', 'a',
        '-',
    ];

    /// Returns the file with some characters left out, inserted, swapped or replaced.
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

    /// Whatever is wrong with a file, the error is one line without a password.
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
                    // A changed password is none. Without its colon or slashes, a URL is not recognised.
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
