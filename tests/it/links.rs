//! Checks the links of the README, of the docs and of the crate's documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where docs.rs shows the package's files.
const SOURCE: &str = "https://docs.rs/crate/uidring/latest/source/";

const PICTURE: &str = "docs/images/uid-bits.svg";
const PICTURE_IN_LINE: &str = "docs/images/uid-bits.url.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns a page without its code blocks.
fn prose(page: &str) -> String {
    let mut in_code = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns each text between `open` and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0)).collect()
}

/// Returns the definitions `[name]: target` of a page.
fn definitions(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    lines.collect()
}

/// Returns the anchors of a page's headings. Repeated ones get a number.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in page.lines().filter(|line| line.starts_with('#')) {
        let letters = heading.trim_start_matches('#').trim().chars();
        let letters = letters.filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let name = letters.collect::<String>().to_lowercase().replace(' ', "-");
        let repeated = (1..).map(|number| format!("{name}-{number}"));
        let mut names = [name.clone()].into_iter().chain(repeated);
        anchors.extend(names.find(|name| !anchors.contains(name)));
    }
    anchors
}

/// Checks the targets of a page's links. Returns how many are files.
fn check(path: &str) -> usize {
    let text = prose(&read(path));
    let mut links = between(&text, "](", ')');
    links.extend(definitions(&text).values());
    links.retain(|link| !link.contains("://"));
    for link in &links {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let folder = Path::new(path).parent().expect("a folder");
        let target = if file.is_empty() { path.into() } else { folder.join(file) };
        assert!(root().join(&target).exists(), "{path}: {link}");
        let known = |page: String| anchors(&prose(&page)).contains(anchor);
        assert!(anchor.is_empty() || known(read(&target.to_string_lossy())), "{path}: {link}");
    }
    links.len()
}

#[test]
fn links_have_targets() {
    let docs = fs::read_dir(root().join("docs")).expect("docs").flatten();
    let names = docs.map(|entry| entry.file_name().into_string().expect("UTF-8"));
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let links: usize = pages.map(|page| check(&page)).sum();
    assert!(links > 50, "{links}");
    assert!(check("README.md") >= 10);
    for page in ["CONTRIBUTING.md", "SECURITY.md"] {
        assert!(check(page) > 0, "{page}");
    }
}

/// A page must be in the table of contents to be in the book.
#[test]
fn each_page_is_in_the_table_of_contents() {
    let contents = read("docs/SUMMARY.md");
    for entry in fs::read_dir(root().join("docs")).expect("docs").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let is_page = name.ends_with(".md") && name != "SUMMARY.md";
        assert!(!is_page || contents.contains(&format!("]({name})")), "{name}");
    }
}

/// The crate's documentation links to pages by their docs.rs address.
#[test]
fn links_of_the_crate_lead_to_pages() {
    let library = read("src/lib.rs");
    let pages = between(&library, SOURCE, '\n');
    assert!(pages.len() > 5, "{pages:?}");
    for page in pages {
        let page = page.split(')').next().unwrap_or(page);
        assert!(root().join(page).exists(), "src/lib.rs: {page}");
    }
}

/// docs.rs shows no separate picture files, so its picture is in the link.
#[test]
fn the_picture_is_the_same_in_the_documentation() {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:=,".contains(&byte);
    let url: String = read(PICTURE)
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect();
    let expected = format!("[{PICTURE}]: data:image/svg+xml,{url}\n");
    assert!(read(PICTURE_IN_LINE) == expected, "{PICTURE_IN_LINE} must be:\n{expected}");
}
