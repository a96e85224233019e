//! The blocks of code in `docs`, for tests that run them.

use std::env;
use std::fs;
use std::path::PathBuf;

pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

/// Panics unless the page equals this generated text, after writing it to a file to copy.
pub fn assert_made(page: &str, expected: &str) {
    let path = folder().join(page);
    if fs::read_to_string(&path).expect(page) != expected {
        let made = env::temp_dir().join(format!("uidring-{page}"));
        fs::write(&made, expected).expect("writes");
        panic!("copy {} to {} and look at the difference", made.display(), path.display());
    }
}

/// Returns the text above the first section of a page.
pub fn head(page: &str) -> String {
    let text = fs::read_to_string(folder().join(page)).expect(page);
    text.split_once("\n## ").expect("a section").0.to_owned()
}

/// Returns the blocks of a page in order, each with its language.
pub fn blocks(page: &str) -> Vec<(String, String)> {
    let text =
        fs::read_to_string(folder().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        // A block in a list is indented.
        let Some((indent, language)) = line.split_once("```") else { continue };
        let code = lines.by_ref().take_while(|line| line.trim() != "```");
        let code = code.map(|line| format!("{}\n", line.strip_prefix(indent).unwrap_or(line)));
        blocks.push((language.to_owned(), code.collect()));
    }
    blocks
}

/// Returns the one block of a page with this beginning.
pub fn block(page: &str, beginning: &str) -> String {
    let mut blocks = blocks(page);
    blocks.retain(|(_, code)| code.starts_with(beginning));
    assert_eq!(blocks.len(), 1, "{page}: blocks that begin with `{beginning}`: {blocks:?}");
    blocks.remove(0).1
}
