//! No import cycles between files: a file must not use an item of a file that uses one of its own, directly or through
//! others. Using an item through a re-export counts as using the re-exporting file, too. `mod` declarations and
//! re-exports are not uses. Tests are excluded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layering::crate_sources;

/// Tests and models.
const LEFT_OUT: &[&str] =
    &["#[cfg(test)", "#[cfg(all(test", "#[cfg(uidring_loom)", "#[cfg(doctest)"];

#[test]
fn files_do_not_import_each_other() {
    let mut circles = String::new();
    let mut modules = 0;
    for folder in crate_sources() {
        for root in ["lib.rs", "main.rs"] {
            let path = folder.join(root);
            if path.exists() {
                let mut source = Source::default();
                source.read(&path, &folder, Vec::new());
                modules += source.modules.len();
                circles += &source.circles();
            }
        }
    }
    assert!(modules > 100, "the sources were found");
    assert!(circles.is_empty(), "import circles:\n{circles}");
}

type Names = Vec<String>;

/// The modules of a crate by path.
#[derive(Default)]
struct Source {
    modules: BTreeMap<Names, Module>,
}

/// A file, or an inline module in one.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// Items that it defines.
    items: BTreeSet<String>,
    /// Its imports and re-exports: path by name.
    imports: BTreeMap<String, Names>,
    /// Paths and names in its code and in its private imports.
    used: BTreeSet<Names>,
}

impl Source {
    /// Reads a file and its submodules, which are in `folder`.
    fn read(&mut self, file: &Path, folder: &Path, name: Names) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        // Skip empty lines: they have no indentation to place them.
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let mut lines = text.lines().filter(is_code);
        let mut inside = vec![name];
        while let Some(line) = lines.next() {
            let (code, indent) = (line.trim_start(), line.len() - line.trim_start().len());
            let is_end = |line: &str| line.len() > indent && line[indent..].starts_with('}');
            if LEFT_OUT.iter().any(|attribute| code.starts_with(attribute)) {
                let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#["));
                if !item.is_some_and(|item| item.ends_with([';', '}'])) {
                    lines.find(|line| is_end(line));
                }
                continue;
            }
            // The modules around this line, by its indentation.
            inside.truncate(indent / 4 + 1);
            let is_item = inside.len() == indent / 4 + 1;
            let here = inside.last().expect("the file").clone();
            let (visibility, rest) = match code.strip_prefix("pub") {
                Some(rest) if rest.starts_with('(') => rest.split_once(") ").unwrap_or(("", rest)),
                Some(rest) if rest.starts_with(' ') => ("(all", &rest[1..]),
                _ => ("", code),
            };
            if let Some(module) = rest.strip_prefix("mod ").filter(|_| is_item) {
                let child = module.trim_end_matches([';', ' ', '{', '}']);
                let name = [here, vec![child.to_owned()]].concat();
                if module.ends_with('{') {
                    inside.push(name);
                } else if module.ends_with(';') {
                    self.read(&folder.join(format!("{child}.rs")), &folder.join(child), name);
                }
                continue;
            }
            let module = self.modules.entry(here).or_default();
            module.file = file.to_owned();
            let import = rest.strip_prefix("use ").filter(|import| import.ends_with([';', '{']));
            if let Some(import) = import {
                let mut import = import.to_owned();
                while !import.ends_with(';') {
                    import += lines.next().expect("an import's end").trim();
                }
                for (name, path) in expand(&import.replace(" as ", "@").replace([';', ' '], "")) {
                    if visibility.is_empty() {
                        module.used.insert(path.clone());
                    }
                    module.imports.insert(name, path);
                }
                continue;
            }
            if let Some(item) = defined(rest).filter(|_| is_item) {
                module.items.insert(item.to_owned());
            }
            module.used.extend(paths(code));
        }
    }

    /// Returns the item that a path in a module means, with the file that defines it and those that re-export it.
    /// Returns `None` for a module or an item of another crate.
    fn item_of<'a>(
        &'a self,
        module: &[String],
        path: &[String],
    ) -> Option<(&'a str, BTreeSet<&'a Path>)> {
        let (first, rest) = path.split_first()?;
        let here = self.modules.get(module)?;
        match (first.as_str(), module.split_last()) {
            ("crate", _) => return self.item_of(&[], rest),
            ("self", _) => return self.item_of(module, rest),
            ("super", Some((_, parent))) => return self.item_of(parent, rest),
            _ => {}
        }
        if let Some(item) = here.items.get(first) {
            return Some((item, BTreeSet::from([&*here.file])));
        }
        // A single name is no module: a module may have the same name as an item in it.
        let child = [module, std::slice::from_ref(first)].concat();
        if !rest.is_empty() && self.modules.contains_key(&child) {
            return self.item_of(&child, rest);
        }
        let import = here.imports.get(first).filter(|import| import[0] != *first)?;
        let (item, mut files) = self.item_of(module, &[import, rest].concat())?;
        files.insert(&here.file);
        Some((item, files))
    }

    /// Returns each cycle's files, with the items that they use of each other.
    fn circles(&self) -> String {
        let mut uses: BTreeMap<&Path, BTreeMap<&Path, BTreeSet<&str>>> = BTreeMap::new();
        for (name, module) in &self.modules {
            let items = module.used.iter().filter_map(|path| self.item_of(name, path));
            let items =
                items.flat_map(|(item, files)| files.into_iter().map(move |file| (item, file)));
            for (item, file) in items.filter(|(_, file)| *file != module.file) {
                uses.entry(&module.file).or_default().entry(file).or_default().insert(item);
            }
        }
        let reaches = |from: &Path, to: &Path| {
            let (mut found, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(file) = next.pop() {
                let new = uses.get(file).into_iter().flat_map(BTreeMap::keys).copied();
                next.extend(new.filter(|file| found.insert(*file)));
            }
            found.contains(to)
        };
        let mut text = String::new();
        for (file, used) in &uses {
            for (other, items) in used.iter().filter(|(other, _)| reaches(other, file)) {
                text += &format!("{} -> {}: {items:?}\n", file.display(), other.display());
            }
        }
        text
    }
}

/// Returns the names and paths of an import without spaces: `a{b,c{d}}` has two.
fn expand(import: &str) -> Vec<(String, Names)> {
    let Some((prefix, group)) = import.split_once("::{") else {
        let (path, alias) = import.split_once('@').unwrap_or((import, ""));
        let mut path: Names = path.split("::").map(str::to_owned).collect();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let name = if alias.is_empty() { path.last().expect("a name") } else { alias };
        return vec![(name.to_owned(), path)];
    };
    let group = group.strip_suffix('}').expect("the end of a group");
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(&format!("{prefix}::{part}"))).collect()
}

/// Returns the name that a line defines, if any.
fn defined(line: &str) -> Option<&str> {
    const KINDS: &[&str] =
        &["fn", "struct", "enum", "trait", "type", "const", "static", "macro_rules"];
    let mut words = words(line).skip_while(|word| ["unsafe", "async"].contains(word)).peekable();
    let kind = words.next().filter(|word| KINDS.contains(word))?;
    words.find(|word| kind != "const" || !["unsafe", "fn"].contains(word))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the paths and names in a line of code, without methods and fields.
fn paths(line: &str) -> impl Iterator<Item = Names> {
    let is_part = |c: char| c.is_alphanumeric() || "_:.$'".contains(c);
    let parts = line.split(move |c| !is_part(c)).filter(|part| !part.contains(['$', '\'']));
    let parts = parts.map(|part| part.split('.').next().unwrap_or_default().trim_matches(':'));
    parts.filter(|part| !part.is_empty()).map(|part| part.split("::").map(str::to_owned).collect())
}
