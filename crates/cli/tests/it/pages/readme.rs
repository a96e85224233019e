//! The README: its commands run in order, and its program is an example.

use std::fs;
use std::path::Path;

use uidring_testkit::zookeeper::ZooKeeper;

use super::help;
use crate::support::Home;

const README: &str = include_str!("../../../../../README.md");

/// Commands that do not run here.
const NOT_RUN: &[&str] = &[
    // Runs this test.
    "scripts/test",
    // Would not end.
    "cargo run --release -p uidring-cli --features full -- serve",
];

fn blocks() -> Vec<(&'static str, &'static str)> {
    let blocks = README.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').expect("a language")).collect()
}

#[test]
fn commands_run_as_pasted() {
    let blocks = blocks().into_iter().filter(|(language, _)| *language == "sh");
    let commands =
        blocks.flat_map(|(_, block)| block.lines()).filter(|line| !NOT_RUN.contains(line));
    let commands: Vec<String> =
        commands.map(|line| line.replace("cargo run --release -- ", "uidring ")).collect();
    let strange = commands.iter().find(|command| !command.starts_with("uidring "));
    assert_eq!(strange, None, "neither the program nor in `NOT_RUN`");
    assert!(!commands.is_empty());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    help::run(&commands, &ZooKeeper::shared().hosts());
}

#[test]
fn its_program_is_an_example_that_runs() {
    let example = include_str!("../../../../any/examples/first_ids.rs");
    let (_, code) = example.split_once("\n\n").expect("a comment, then code");
    let blocks: Vec<_> =
        blocks().into_iter().filter(|(language, _)| language.starts_with("rust")).collect();
    assert_eq!(blocks, [("rust,no_run", code.trim_end())]);
}

#[test]
fn its_dependencies_are_these_crates() {
    let (_, block) = blocks().into_iter().find(|(language, _)| *language == "toml").expect("TOML");
    let (head, lines) = block.split_once('\n').expect("lines");
    assert_eq!(head, "[dependencies]");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for line in lines.lines() {
        let (name, path) =
            line.split_once(" = { path = \"../uidring").expect("a crate of this folder");
        let path = path.strip_suffix("\" }").expect("nothing else").trim_start_matches('/');
        let manifest = fs::read_to_string(root.join(path).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{line}");
    }
}

#[test]
fn its_picture_shows_a_uid() {
    let picture = include_str!("../../../../../docs/images/uid-bits.svg");
    let texts: Vec<&str> =
        picture.split("</text>").filter_map(|element| Some(element.rsplit_once('>')?.1)).collect();
    let [uid, sign, time, _, ticks, timestamp, worker, _, worker_id, _, sequence, _, number, _] =
        texts[..14]
    else {
        panic!("{texts:?}")
    };
    let bits = [sign, time, worker, sequence].concat();
    assert_eq!(i64::from_str_radix(&bits, 2).map(|bits| bits.to_string()).as_deref(), Ok(uid));
    let fields = Home::new().stdout(&format!("parse {uid}"));
    let expected = [
        format!("\"timestamp\":\"{timestamp}\""),
        format!("\"worker_id\":{worker_id}"),
        format!("\"sequence\":{number}"),
    ];
    for field in expected {
        assert!(fields.replace("\": ", "\":").contains(&field), "{field} in {fields}");
    }
    let seconds = u64::from_str_radix(time, 2).expect("bits");
    assert!(ticks.replace(',', "").starts_with(&format!("{seconds} s ")), "{ticks}");
    assert!(README.contains(&format!("The uid {uid} in bits")));
    let program = include_str!("../../../../../docs/program.md");
    assert!(program.contains(&format!("uidring parse {uid}\n")));
}
