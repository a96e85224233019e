//! The program against docs/data/format.json, the vectors of docs/format.md: lines of JSON, bytes, and texts from
//! stdin. tests/it/format.rs checks the library's texts.

use serde_json::Value;
use uidring::Layout;

use crate::support::{Home, Run};

const PRESETS: [&str; 5] = ["uid", "uid-long", "snowflake", "leaf", "javascript-safe"];

fn vectors(kind: &str) -> Vec<Value> {
    let mut all: Value =
        serde_json::from_str(include_str!("../../../../docs/data/format.json")).expect("vectors");
    let Value::Array(vectors) = all[kind].take() else { panic!("no {kind}") };
    assert!(!vectors.is_empty(), "{kind}");
    vectors
}

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} of {vector}"))
}

/// Returns the bytes on stdin for a text in a form.
fn input(form: &str, text: &str) -> Vec<u8> {
    if form != "binary" {
        return format!("{text}\n").into_bytes();
    }
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn every_form_is_read_and_the_json_is_that_of_the_vectors() {
    let home = Home::new();
    let uids = vectors("uids");
    for vector in vectors("layouts") {
        let name = text(&vector, "name");
        let layout: Layout = text(&vector, "layout").parse().expect("a layout");
        let (bits, tick, epoch) = (layout.bits(), layout.tick(), layout.epoch());
        let flags = if PRESETS.contains(&name) {
            format!("--layout {name}")
        } else {
            format!("--layout {bits}/{tick}/{epoch}")
        };
        let mine: Vec<&Value> = uids.iter().filter(|uid| uid["layout"] == vector["name"]).collect();
        let expected: String = mine.iter().map(|uid| format!("{}\n", text(uid, "json"))).collect();
        for form in ["dec", "hex", "base62", "base32", "binary", "json"] {
            let field = if form == "dec" { "uid" } else { form };
            let stdin: Vec<u8> =
                mine.iter().flat_map(|uid| input(form, text(uid, field))).collect();
            let words = format!("parse --quiet --format {form} {flags}");
            let run = Run::with_input(&mut home.command(&words), &stdin);
            assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
            assert_eq!(run.stdout, expected, "{words}");
        }
    }
}

#[test]
fn what_else_is_read_or_refused_is_that_of_the_vectors() {
    let home = Home::new();
    let parse = |vector: &Value| {
        let form = text(vector, "form");
        // In this layout, every number is a uid.
        let words = format!("parse --quiet --format {form} --layout 61/1/1/s/2026-01-01");
        Run::with_input(&mut home.command(&words), &input(form, text(vector, "text")))
    };
    for vector in vectors("read") {
        let run = parse(&vector);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{vector}");
        let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(object["uid"], vector["uid"], "{vector}");
    }
    for vector in vectors("refused") {
        let written = text(&vector, "text");
        // On stdin, these end the line, and blank lines are skipped.
        if written.is_empty() || written.ends_with(['\n', '\r']) {
            continue;
        }
        let run = parse(&vector);
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{vector}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}
