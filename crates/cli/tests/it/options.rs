//! The page of the options of URLs says what the table of options says.

use std::fmt::Write;
use std::fs;

use uidring_etcd::EtcdStore;
use uidring_mysql::MySql;
use uidring_postgres::Postgres;
use uidring_sqlite::SqliteStore;
use uidring_store::options::{Kind, Owner, Row};
use uidring_store::server::Engine;
use uidring_store::values::shown;
use uidring_testkit::docs;
use uidring_zookeeper::LeafZooKeeper;

#[test]
fn the_page_is_made_of_the_rows() {
    let path = docs::folder().join("options.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (above, _) = page.split_once("\n## ").expect("a section");
    let owners = [
        SqliteStore::OPTIONS,
        MySql::OPTIONS,
        Postgres::OPTIONS,
        EtcdStore::OPTIONS,
        LeafZooKeeper::OPTIONS,
    ];
    let sections = owners.map(table);
    let expected = format!("{above}\n{}", sections.join("\n"));
    if page != expected {
        let made = std::env::temp_dir().join("uidring-options.md");
        fs::write(&made, expected).expect("writes");
        panic!("copy {} to {} and look at the difference", made.display(), path.display());
    }
}

/// The section of an engine.
fn table(owner: &Owner) -> String {
    let mut text = format!(
        "## {}\n\n| option | value | without it | what it does |\n|---|---|---|---|\n",
        owner.name
    );
    for row in owner.rows {
        let default = if row.default.is_empty() { "–" } else { row.default };
        let aliases: Vec<_> = row.aliases.iter().map(|alias| format!("`{}`", alias.name)).collect();
        let also = if aliases.is_empty() {
            String::new()
        } else {
            format!(" (also {})", aliases.join(", "))
        };
        writeln!(text, "| `{}`{also} | {} | {default} | {} |", row.name, values(row), row.help)
            .expect("a String");
    }
    if !owner.harmless.is_empty() {
        let names: Vec<_> = owner.harmless.iter().map(|name| format!("`{name}`")).collect();
        writeln!(text, "\nAccepted, and without effect: {}.", names.join(", ")).expect("a String");
    }
    text.push('\n');
    for (name, advice) in owner.refused {
        writeln!(text, "- `{name}` is refused: {advice}.").expect("a String");
    }
    text
}

fn values(row: &Row) -> String {
    match &row.kind {
        Kind::Words(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Number(range) => format!("{} to {}", range.start(), range.end()),
        Kind::Time(range) => format!("{} to {}", shown(*range.start()), shown(*range.end())),
        Kind::Path => "a path".into(),
        Kind::Text => "a text".into(),
    }
}
