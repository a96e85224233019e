//! The options that a URL sets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use strsim::jaro_winkler;

use super::{Alias, Owner, Row, Takers};
use crate::url::shown;
use crate::values::{number, time};

/// The options that a URL sets, with valid values. A value may be secret, so this implements neither `Debug` nor
/// `Display`.
#[derive(Default)]
pub struct Given {
    /// By the row's name: the value, and what errors call the option.
    values: BTreeMap<&'static str, (String, String)>,
    harmless: Vec<&'static str>,
}

impl Given {
    /// Reads the parameters of a URL as options.
    ///
    /// # Errors
    ///
    /// Says what is wrong. Never shows a value, and shows a name only if it cannot be part of a password.
    pub fn read(takers: &Takers, parameters: &[(String, String)]) -> Result<Self, String> {
        let mut given = Self::default();
        for (name, value) in parameters {
            given.add(takers, name, value, None)?;
        }
        Ok(given)
    }

    /// Adds an option. Errors call it `called`, such as `--layout`, or by its name. Several places may set an option to
    /// the same value.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn add(
        &mut self,
        takers: &Takers,
        name: &str,
        value: &str,
        called: Option<&str>,
    ) -> Result<(), String> {
        let mut rows = takers.takes.iter().chain(takers.refuses).flat_map(|owner| owner.rows);
        let by_name = rows.find_map(|row| Some((*row, row.named(name)?)));
        let Some((row, alias)) = by_name else { return self.add_foreign(takers, name, called) };
        let value = match alias {
            Some(alias) => (alias.read)(value).map_err(String::from),
            None => Ok(value.to_owned()),
        };
        let value = value.and_then(|value| row.check(&value).map(|()| value));
        let name = alias.map_or(row.name, |alias| alias.name);
        let by = called.map_or_else(|| format!("`{name}`"), String::from);
        let value = value.map_err(|problem| format!("the value of {by}: {problem}"))?;
        match self.values.get(row.name) {
            Some((_, before)) if *before == by => Err(format!("{by} is given twice")),
            Some((before, _)) if called.is_some() && *before == value => Ok(()),
            Some((_, before)) => {
                let is_of_url = called.is_some() && before.ends_with('`');
                let whose = if is_of_url { "the URL's " } else { "" };
                Err(format!("{whose}{before} and {by} set the same option; leave one of them out"))
            }
            None => {
                self.values.insert(row.name, (value, by));
                Ok(())
            }
        }
    }

    /// Removes an option, so that it can be set again.
    pub fn remove(&mut self, takers: &Takers, name: &str) {
        let mut rows = takers.takes.iter().flat_map(|owner| owner.rows);
        if let Some(row) = rows.find(|row| row.named(name).is_some()) {
            self.values.remove(row.name);
        }
    }

    /// Adds a parameter that is not an option.
    fn add_foreign(
        &mut self,
        takers: &Takers,
        name: &str,
        called: Option<&str>,
    ) -> Result<(), String> {
        let mut refused = takers.takes.iter().flat_map(|owner| owner.refused);
        if let Some((name, advice)) = refused.find(|(refused, _)| *refused == name) {
            return Err(format!("`{name}` is refused: {advice}"));
        }
        let mut harmless = takers.takes.iter().flat_map(|owner| owner.harmless);
        let harmless = harmless.find(|harmless| **harmless == name);
        self.harmless.push(harmless.ok_or_else(|| unknown(takers, name, called))?);
        Ok(())
    }

    /// Refuses options that one of the `owners` takes but `chosen` does not.
    ///
    /// # Errors
    ///
    /// Names the first such option.
    pub fn refuse_others(&self, chosen: &Owner, owners: &[&Owner]) -> Result<(), String> {
        let takes = |owner: &Owner, name| owner.rows.iter().any(|row| row.name == name);
        let is_other = |name| !takes(chosen, name) && owners.iter().any(|owner| takes(owner, name));
        match self.values.iter().find(|(name, _)| is_other(**name)) {
            Some((_, (_, by))) => Err(format!("{by} is not for {}", chosen.name)),
            None => Ok(()),
        }
    }

    /// Returns the names of the parameters that have no effect.
    pub fn harmless(&self) -> &[&'static str] {
        &self.harmless
    }

    /// Returns the value of the option with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// Returns the value of an option.
    pub fn text(&self, row: &Row) -> Option<&str> {
        self.get(row.name)
    }

    /// Returns whether an option has this value.
    pub fn is(&self, row: &Row, value: &str) -> bool {
        self.text(row) == Some(value)
    }

    /// Returns the value of a path option.
    pub fn path(&self, row: &Row) -> Option<PathBuf> {
        self.text(row).map(PathBuf::from)
    }

    /// Returns the value of a time option.
    pub fn time(&self, row: &Row) -> Option<Duration> {
        time(Duration::ZERO..=Duration::MAX)(self.text(row)?).ok()
    }

    /// Returns the value of a number option.
    pub fn number(&self, row: &Row) -> Option<u64> {
        number(0..=u64::MAX)(self.text(row)?).ok()
    }
}

impl Row {
    /// Returns whether this row has the name, and which alias that is.
    fn named(&self, name: &str) -> Option<Option<&'static Alias>> {
        if self.name == name {
            return Some(None);
        }
        self.aliases.iter().find(|alias| alias.name == name).map(Some)
    }
}

/// Names the engines that take the option, or suggests the nearest name. Hides what may be part of a password.
fn unknown(takers: &Takers, name: &str, called: Option<&str>) -> String {
    let takes = |owner: &&&Owner| owner.rows.iter().any(|row| row.named(name).is_some());
    let others: Vec<_> = takers.elsewhere.iter().filter(takes).map(|owner| owner.name).collect();
    let advice = match &*others {
        [] => nearest(takers, name),
        others => format!("; it is an option of {}", others.join(", ")),
    };
    let own = takers.takes.first().map_or("This", |owner| owner.name);
    match called {
        Some(called) => format!("{called} is no setting, and no option of {own}{advice}"),
        None => format!("{own} has no parameter{}{advice}", shown(name)),
    }
}

/// The least similarity of a suggested name, from 0 to 1.
const LIKE: f64 = 0.7;

fn nearest(takers: &Takers, name: &str) -> String {
    let rows = takers.takes.iter().flat_map(|owner| owner.rows);
    let likeness = |row: &Row| jaro_winkler(row.name, name);
    let nearest = rows.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|row| likeness(row) >= LIKE) {
        Some(row) => format!("; the nearest is `{}`", row.name),
        // Asked by the crate of one engine, which knows no options of generators.
        None if takers.elsewhere.is_empty() => {
            "; docs/options.md lists its options. Those of generators are for uidring_any::open"
                .into()
        }
        None => "; docs/options.md lists its options".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CLUSTER, CONNECT_TIMEOUT, DEADLINE, KEY, Kind, TLS};
    use super::*;

    static COUNT: Row = Row::new("count", Kind::Number(1..=9), "A number");

    static OWNER: Owner = Owner {
        name: "Some engine",
        rows: &[&TLS, &KEY, &DEADLINE, &CONNECT_TIMEOUT, &CLUSTER, &COUNT],
        harmless: &["pool"],
        refused: &[("schema", "use a database of its own")],
    };

    fn read(text: &str) -> Result<Given, String> {
        let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs: Vec<_> = pairs.map(|(name, value)| (name.into(), value.into())).collect();
        Given::read(&Takers::from(&OWNER), &pairs)
    }

    #[test]
    fn values_are_read_by_their_rows() {
        let given = read("tls=off&key=/a&deadline=5m&connect_timeout=3&count=7&pool=10");
        let given = given.unwrap_or_else(|problem| panic!("{problem}"));
        assert!(given.is(&TLS, "off") && given.text(&CLUSTER).is_none());
        assert_eq!(given.path(&KEY), Some("/a".into()));
        assert_eq!(given.time(&DEADLINE), Some(Duration::from_secs(300)));
        assert_eq!(given.time(&CONNECT_TIMEOUT), Some(Duration::from_secs(3)));
        assert_eq!((given.number(&COUNT), given.harmless()), (Some(7), &["pool"][..]));
    }

    #[test]
    fn aliases_have_the_values_of_their_clients() {
        for (text, mode) in [
            ("sslmode=disable", "off"),
            ("sslmode=require", "verify"),
            ("sslmode=verify-full", "verify"),
            ("ssl-mode=DISABLED", "off"),
            ("ssl-mode=VERIFY_IDENTITY", "verify"),
            ("require_ssl=true", "verify"),
            ("require_ssl=false", "off"),
        ] {
            let given = read(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            assert!(given.is(&TLS, mode), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_heeded_is_an_error_that_shows_no_value() {
        for (text, problem) in [
            ("tls=s3cret", "the value of `tls`: write off or verify or unverified"),
            ("sslmode=prefer", "a server in the middle can turn TLS off"),
            ("deadline=0s", "write a time from 1s to 1h"),
            ("count=10", "write a whole number from 1 to 9"),
            ("key=", "the value of `key`: it is empty"),
            ("key=/s3cret\n", "the value of `key`: it has a character that cannot be seen"),
            ("tls=off&tls=off", "`tls` is given twice"),
            ("sslmode=require&tls=verify", "`sslmode` and `tls` set the same option"),
            ("require_ssl=true&sslmode=require", "`require_ssl` and `sslmode` set the same option"),
            ("schema=s3cret", "`schema` is refused: use a database of its own"),
            ("dedline=5s", "Some engine has no parameter `dedline`; the nearest is `deadline`"),
        ] {
            let error = read(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(
                error.contains(problem) && !error.to_lowercase().contains("s3cret"),
                "{text}: {error}"
            );
        }
        for text in ["S3cret=1", "s3cret=1"] {
            let expected = "Some engine has no parameter; docs/options.md lists its options. Those of generators are for uidring_any::open";
            assert_eq!(read(text).err().as_deref(), Some(expected));
        }
    }
}
