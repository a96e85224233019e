//! The links of the README and the docs: each has a target, on the repository's page and, for the README,
//! in the library's documentation, of which it is the first page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where a file of the package is shown beside its documentation.
const SOURCE: &str = "https://docs.rs/crate/uidring/latest/source/";

const PICTURE: &str = "docs/images/uid-bits.svg";
const PICTURE_IN_LINE: &str = "docs/images/uid-bits.url.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    let mut in_code = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// What stands between `open` and the next `close`, each time.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0)).collect()
}

/// The definitions `[name]: target` of a page.
fn definitions(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    lines.collect()
}

/// The anchors of a page's headings: a repeated one gets a number.
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

/// Checks the targets of a page's links, and returns how many lead to files.
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
}

/// Only by reference can a link lead elsewhere in the documentation: of two definitions the first counts,
/// and that is the one in `lib.rs`.
#[test]
fn links_of_the_readme_work_in_the_documentation() {
    let page = read("README.md");
    let text = prose(&page);
    assert_eq!(between(&text, "](", ')'), [""; 0], "not by reference");
    let targets = definitions(&text);
    let mut used: BTreeSet<&str> = between(&text, "][", ']').into_iter().collect();
    let by_name = text.match_indices("][]").map(|(end, _)| &text[..end]);
    used.extend(by_name.filter_map(|before| Some(before.rsplit_once('[')?.1)));
    used.remove("");
    assert_eq!(used, targets.keys().copied().collect(), "used and defined");

    let library = read("src/lib.rs").replace("//! ", "");
    let first = definitions(&library);
    for (name, target) in targets.iter().filter(|(name, _)| **name != PICTURE) {
        assert_eq!(first.get(name), Some(&&*format!("{SOURCE}{target}")), "{name} in src/lib.rs");
    }
}

/// No file beside it comes with a page of the documentation, so there the picture is in the link itself.
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
