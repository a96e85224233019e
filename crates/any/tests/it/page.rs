//! The page of the options of URLs says what the table of options says.

use std::fmt::Write;

use uidring_any::table::{GENERATORS, WORKERS, kinds};
use uidring_store::options::{Kind, Owner, Row};
use uidring_store::values::shown;
use uidring_testkit::docs;

#[test]
fn the_page_is_made_of_the_rows() {
    let mut sections = vec![group("Generators", &GENERATORS), group("Worker ids", &WORKERS)];
    sections.extend(kinds().into_iter().map(|kind| section(kind.options)));
    let page = format!("{}\n{}", docs::head("options.md"), sections.join("\n"));
    docs::assert_made("options.md", &page);
}

/// The section of owners that share options.
fn group(heading: &str, owners: &[&Owner]) -> String {
    let mut text = format!(
        "## {heading}\n\n| option | value | without it | what it does | for |\n|---|---|---|---|---|\n"
    );
    let mut rows: Vec<&Row> = Vec::new();
    for row in owners.iter().flat_map(|owner| owner.rows) {
        if !rows.iter().any(|known| known.name == row.name) {
            rows.push(row);
        }
    }
    for row in rows {
        let takes = |owner: &&&Owner| owner.rows.iter().any(|taken| taken.name == row.name);
        let names: Vec<_> = owners.iter().filter(takes).map(|owner| owner.name).collect();
        let names = if names.len() == owners.len() { "all".into() } else { names.join(", ") };
        writeln!(text, "{} {names} |", line(row)).expect("a String");
    }
    text
}

/// The section of an engine.
fn section(owner: &Owner) -> String {
    let mut text = format!(
        "## {}\n\n| option | value | without it | what it does |\n|---|---|---|---|\n",
        owner.name
    );
    for row in owner.rows {
        writeln!(text, "{}", line(row)).expect("a String");
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

/// The line of an option.
fn line(row: &Row) -> String {
    let default = if row.default.is_empty() { "–" } else { row.default };
    let aliases: Vec<_> = row.aliases.iter().map(|alias| format!("`{}`", alias.name)).collect();
    let also =
        if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    format!("| `{}`{also} | {} | {default} | {} |", row.name, values(row), row.help)
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
        Kind::Form { form, .. } => (*form).into(),
    }
}
