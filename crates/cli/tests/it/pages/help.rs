//! The help texts: each example runs as written.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use uidring_any::table::{GENERATORS, WORKERS};
use uidring_testkit::docs;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

use crate::support::program::database;
use crate::support::{Home, Run};

/// Returns all commands with their own help text, such as `worker list`.
fn commands(home: &Home) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut next = 0;
    while let Some(command) = found.get(next).cloned() {
        let help = home.stdout(&format!("{command} --help"));
        let list = help.split_once("\nCommands:\n").map_or("", |(_, list)| list);
        let lines = list.lines().take_while(|line| line.starts_with("  "));
        let names = lines.filter(|line| !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next());
        let names = names.filter(|name| *name != "help");
        found.extend(names.map(|name| format!("{command} {name}").trim().to_owned()));
        next += 1;
    }
    found
}

const ETCD: &str = "etcd1:2379,etcd2:2379,etcd3:2379";

fn examples(help: &str) -> Vec<&str> {
    let examples = help.split_once("\nExamples:\n").map_or("", |(_, examples)| examples);
    examples.lines().take_while(|line| line.starts_with("  ")).map(str::trim).collect()
}

/// Runs a text's examples in order, in a fresh folder and with fresh servers in place of those that they name.
pub fn run(examples: &[&str], zookeeper: &str) {
    let home = Home::new();
    let folder = home.folder.path().to_str().expect("UTF-8").to_owned();
    let server = MariaDb::shared();
    let database = database(&server);
    fs::create_dir(home.folder.path().join("shop")).expect("made");
    for name in ["mysql-url", "url.txt"] {
        fs::write(home.folder.path().join(name), database.url()).expect("writes");
    }
    let postgres = Postgres::shared();
    let postgres_database = postgres.database();
    for name in ["postgres-url", "pg.txt"] {
        fs::write(home.folder.path().join(name), postgres_database.url()).expect("writes");
    }
    for file in ["mysql-url", "postgres-url"] {
        let leases = home.run(&format!("worker init --leases --url-file {file}"));
        assert_eq!(leases.status, Some(0), "{leases:?}");
    }
    let etcd = examples.iter().any(|example| example.contains(ETCD)).then(Etcd::start);
    let etcd = etcd.as_ref().map_or_else(String::new, |server| server.address().to_string());
    for example in examples {
        // Measure for less time.
        let script = match example.strip_prefix("uidring bench") {
            Some(rest) => {
                format!("uidring bench --seconds 0.2{}", rest.replace(" --seconds 10", ""))
            }
            None => (*example).to_owned(),
        };
        let script = script
            .replace(ETCD, &etcd)
            .replace("/run/secrets/", &format!("{folder}/"))
            .replace("/var/lib/shop/", &format!("{folder}/shop/"))
            .replace("zk1:2181,zk2:2181", zookeeper)
            .replace("zk:2181", zookeeper);
        let run = Run::of(&mut in_path(&home, &script));
        assert_eq!(run.status, Some(0), "{example}: {run:?}");
        assert!(!run.stderr.contains("error"), "{example}: {run:?}");
    }
}

/// Returns a script in which `uidring` is the program.
fn in_path(home: &Home, script: &str) -> Command {
    home.under_sh(&format!(r#"PATH="$(dirname "$1"):$PATH"; {script}"#))
}

#[test]
fn every_example_runs_as_pasted() {
    let home = Home::new();
    let mut helps: Vec<String> =
        commands(&home).iter().map(|command| home.stdout(&format!("{command} --help"))).collect();
    helps.push(home.stdout("help urls"));
    let groups: Vec<Vec<&str>> =
        helps.iter().map(|help| examples(help)).filter(|group| !group.is_empty()).collect();
    assert!(groups.len() >= 9 && groups.iter().flatten().count() >= 30, "{groups:?}");
    let zookeeper = ZooKeeper::shared();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(group, &zookeeper.hosts());
                }
            });
        }
    });
}

/// The page has all options of generators and of worker ids; engines have too many.
#[test]
fn the_page_of_urls_has_the_options() {
    let page = Home::new().stdout("help urls");
    for row in GENERATORS.iter().chain(&WORKERS).flat_map(|owner| owner.rows) {
        assert!(page.contains(&format!("{}=", row.name)), "{}", row.name);
    }
}

/// The short help fits on a screen.
#[test]
fn help_is_short() {
    let home = Home::new();
    for command in commands(&home) {
        let lines = |flag: &str| home.stdout(&format!("{command} {flag}")).lines().count();
        let found = (lines("-h"), lines("--help"));
        assert!(found.0 <= 40 && found.1 <= 110, "{command}: {found:?}");
    }
}

#[test]
fn the_page_of_commands_is_made_of_the_help() {
    let home = Home::new();
    let mut page = docs::head("commands.md");
    let mut section = |heading: &str, help: &str| {
        let lines: Vec<_> = help.trim().lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {heading}\n\n```text\n{}\n```\n", lines.join("\n")));
    };
    section("uidring", &home.stdout("--help"));
    section("uidring help urls", &home.stdout("help urls"));
    for command in commands(&home).iter().filter(|command| !command.is_empty()) {
        section(&format!("uidring {command}"), &home.stdout(&format!("{command} --help")));
    }
    docs::assert_made("commands.md", &page);
}

#[test]
fn the_settings_in_the_help_of_serve_can_be_pasted() {
    let home = Home::new();
    let help = home.stdout("serve --help");
    let (_, settings) = help.split_once("A file for --config:\n").expect("an example");
    assert!(settings.lines().count() >= 5, "{settings}");
    fs::write(home.folder.path().join("settings.toml"), settings).expect("writes");
    let run = home.run("serve --config settings.toml --batch none --check");
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stderr.ends_with("the settings are right\n"), "{run:?}");
}

#[test]
fn every_command_has_a_man_page() {
    let home = Home::new();
    assert_eq!(home.stdout("man pages/man1"), "");
    let commands = commands(&home);
    for command in &commands {
        let name = format!("uidring {command}").trim().replace(' ', "-");
        let path = home.folder.path().join("pages/man1").join(format!("{name}.1"));
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains("uidring"), "{page}");
    }
    assert!(commands.len() > 15, "{commands:?}");
    let full = home.run("man /dev/null/man1");
    assert_eq!((full.status, &*full.stdout), (Some(1), ""));
    assert!(full.stderr.starts_with("error: writing man pages into /dev/null/man1"), "{full:?}");
}
