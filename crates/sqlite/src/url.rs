//! The URL of a file.

use std::path::Path;

use uidring::Error;
use uidring_store::options::{Given, Kind, Owner, Row};
use uidring_store::url::Url;
use uidring_store::{StoreKind, check_path};

use crate::SqliteStore;

static MODE: Row = Row::new(
    "mode",
    Kind::Words(&["rw", "rwc"]),
    "`rwc` creates a missing file at its first use; the folder must exist",
)
.default("rw");

static FOREIGN: Row = Row::new(
    "foreign",
    Kind::Words(&["false", "true"]),
    "`true` allows the database of your own application, and adds uidring's tables to it",
)
.default("false");

static OPTIONS: Owner = Owner {
    name: "SQLite",
    rows: &[&MODE, &FOREIGN],
    harmless: &["pool", "timeout"],
    refused: &[
        ("cache", "each process opens the file by itself; leave it out"),
        ("immutable", "the file is written"),
        ("vfs", "give a program's own SQLite functions to SqliteStore::open_with"),
    ],
};

/// How SQLite stores are named and opened.
pub static KIND: StoreKind = StoreKind {
    options: &OPTIONS,
    schemes: &["sqlite"],
    form: "sqlite:PATH",
    is_file: true,
    has_own_workers: false,
    open: |url, given| Ok(Box::new(SqliteStore::from_parts(url, given)?)),
};

impl SqliteStore {
    /// Returns the store in the file at this URL, `sqlite:PATH`, with
    /// [options](https://docs.rs/crate/uidring/latest/source/docs/options.md) after a `?`. `sqlite:` alone means the
    /// files in the user's data directory. Percent-encode a `?` or `%` in the path.
    ///
    /// ```
    /// use uidring_sqlite::SqliteStore;
    ///
    /// let store = SqliteStore::from_url("sqlite:/var/lib/shop/workers.db?mode=rwc")?;
    /// # drop(store);
    /// # Ok::<(), uidring::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address) if the URL is wrong. That includes `sqlite://`,
    /// which names different files in different programs, `:memory:`, and a path that begins with `~`. For `sqlite:`
    /// alone, the errors of [`in_data_directory`](Self::in_data_directory).
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let (url, given) = KIND.read(url)?;
        Self::from_parts(&url, &given)
    }

    fn from_parts(url: &Url, given: &Given) -> Result<Self, Error> {
        let store = match &*url.path.concat() {
            "" => Self::in_data_directory()?,
            ":memory:" => {
                return Err(KIND
                    .wrong("worker ids in memory would begin at 1 in each process; name a file"));
            }
            path if path.starts_with('~') => {
                return Err(KIND.wrong(
                    "`~` is the shell's, and stands for no folder here; write the whole path",
                ));
            }
            path => {
                check_path("the file", Path::new(path))?;
                Self::new(path)
            }
        };
        Ok(store.create(given.is(&MODE, "rwc")).foreign(given.is(&FOREIGN, "true")))
    }
}

#[cfg(test)]
mod tests {
    use uidring::Layout;
    use uidring_store::WorkerTable;

    use super::*;

    #[test]
    fn a_url_names_the_file_and_what_may_be_done_to_it() {
        let read = |url| SqliteStore::from_url(url).expect(url);
        for (url, path) in [
            ("sqlite:a.db", "a.db"),
            ("sqlite:/a/b%20c%3F.db?mode=rwc", "/a/b c?.db"),
            ("sqlite:../%25.db?foreign=true&mode=rw", "../%.db"),
        ] {
            assert_eq!(read(url).to_string(), path);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        let url = format!("sqlite:{}", path.display());
        read(&url).worker_nodes().assign(&Layout::UID_GENERATOR).expect_err("no file");
        let created = read(&format!("{url}?mode=rwc"));
        created.worker_nodes().assign(&Layout::UID_GENERATOR).expect("created");
    }

    #[test]
    fn what_means_another_file_elsewhere_is_refused() {
        for (url, problem) in [
            ("", "does not begin with sqlite:"),
            ("a.db", "does not begin with sqlite:"),
            ("sqlite://a.db", "write sqlite:PATH, which is in the present folder, or sqlite:/PATH"),
            ("sqlite:///a.db", "or sqlite:/PATH"),
            ("sqlite::memory:", "name a file"),
            ("sqlite:~/a.db", "the whole path"),
            ("sqlite:a.db?mode=ro", "`mode`: write rw or rwc"),
            ("sqlite:a.db?mode=rw&mode=rw", "given twice"),
            ("sqlite:a.db?cache=shared", "leave it out"),
            ("sqlite:a.db?moed=rw", "the nearest is `mode`"),
        ] {
            let error = SqliteStore::from_url(url).expect_err(url).to_string();
            assert!(
                error.contains(problem) && error.contains("write sqlite:PATH"),
                "{url}: {error}"
            );
        }
    }
}
