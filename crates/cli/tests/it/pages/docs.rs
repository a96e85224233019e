//! The pages of `docs`: a test runs each block of commands and statements.

use std::fs;
use std::path::Path;

use uidring_testkit::docs;
use uidring_testkit::zookeeper::ZooKeeper;

use super::help;

/// Commands of the repository. They run for minutes or run this test; scripts/test and scripts/verify have a short form
/// of each.
const OF_THE_REPOSITORY: &[&str] = &["cargo ", "scripts/", "UIDRING_LEASES_SEED=42 cargo "];

/// Pages whose commands need a running server, and the test that provides one.
const OF_SERVERS: &[(&str, &str)] = &[("server-http.md", "server/tests/http/docs.rs")];

/// The start of each block of statements, and the test that reads it from the page.
const STATEMENTS: &[(&str, &str, &str)] = &[
    ("segments.md", "GRANT SELECT, UPDATE ON ids.leaf_alloc", "mysql/tests/server/mod.rs"),
    ("mysql.md", "GRANT SELECT, INSERT ON ids.WORKER_NODE", "mysql/tests/server/mod.rs"),
    ("mysql.md", "GRANT SELECT, INSERT, UPDATE ON ids.UIDRING_LEASE", "mysql/tests/server/mod.rs"),
    ("postgresql.md", "CREATE TABLE worker_node", "postgres/tests/it/worker_nodes.rs"),
    ("postgresql.md", "GRANT SELECT, INSERT ON worker_node", "postgres/tests/server/mod.rs"),
    (
        "postgresql.md",
        "GRANT SELECT, INSERT, UPDATE ON uidring_lease",
        "postgres/tests/server/mod.rs",
    ),
    ("postgresql.md", "GRANT SELECT, UPDATE ON leaf_alloc", "postgres/tests/server/mod.rs"),
    ("postgresql.md", "ALTER TABLE worker_node ALTER COLUMN id", "postgres/tests/server/mod.rs"),
    ("postgresql.md", "GRANT SELECT ON uidring_range", "postgres/tests/server/mod.rs"),
    ("mysql.md", "GRANT SELECT ON ids.UIDRING_RANGE", "mysql/tests/server/mod.rs"),
    ("leases.md", "UPDATE UIDRING_LEASE SET TOKEN", "testkit/tests/it/lease_tables.rs"),
    ("leases.md", "INSERT INTO WORKER_NODE (ID,", "mysql/tests/server/mod.rs"),
];

fn pages() -> Vec<String> {
    let entries = fs::read_dir(docs::folder()).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    pages
}

#[test]
fn commands_run_as_pasted() {
    let zookeeper = ZooKeeper::shared();
    let mut run = 0;
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    for page in pages() {
        if let Some((_, test)) = OF_SERVERS.iter().find(|(at, _)| *at == page) {
            let test = fs::read_to_string(crates.join(test)).expect("a source");
            assert!(test.contains(&format!("/docs/{page}\")")), "{page}");
            continue;
        }
        let scripts = docs::blocks(&page).into_iter().filter(|(language, _)| language == "sh");
        let (repository, scripts): (Vec<String>, Vec<String>) = scripts
            .map(|(_, script)| script)
            .partition(|script| OF_THE_REPOSITORY.iter().any(|begin| script.starts_with(begin)));
        for line in repository.iter().flat_map(|script| script.lines()) {
            assert!(
                OF_THE_REPOSITORY.iter().any(|begin| line.starts_with(begin)),
                "{page}: {line}"
            );
        }
        let scripts: Vec<String> =
            scripts.iter().map(|script| format!("set -e\n{script}")).collect();
        let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
        if !scripts.is_empty() {
            help::run(&scripts, &zookeeper.hosts());
        }
        run += scripts.len();
    }
    assert!(run >= 5, "{run}");
}

#[test]
fn statements_are_taken_from_the_page_by_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    for page in pages() {
        for (language, code) in docs::blocks(&page) {
            if language != "sql" {
                continue;
            }
            let found =
                STATEMENTS.iter().find(|(at, begin, _)| *at == page && code.starts_with(begin));
            let (_, begin, test) = found.unwrap_or_else(|| panic!("{page}: nothing runs `{code}`"));
            let test = fs::read_to_string(crates.join(test)).expect("a source");
            assert!(test.contains(&format!("(\"{page}\", \"{begin}")), "{page}: {begin}");
        }
    }
}

/// Every block of code is run or compiled.
#[test]
fn programs_are_tests_of_a_crate() {
    let crates = [
        include_str!("../../../../../src/lib.rs"),
        include_str!("../../../../any/src/lib.rs"),
        include_str!("../../../../testkit/src/lib.rs"),
    ];
    for page in pages() {
        for (language, code) in docs::blocks(&page) {
            match &*language {
                "sh" | "sql" | "text" => {}
                // `scripts/kubernetes` builds it.
                "yaml" if page == "kubernetes.md" => {}
                "rust" | "rust,no_run" => {
                    let included = format!("/docs/{page}\")]");
                    assert!(crates.iter().any(|text| text.contains(&included)), "{page}: {code}");
                }
                _ => panic!("{page}: `{language}`: {code}"),
            }
        }
    }
}
