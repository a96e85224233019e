//! Tests the library against docs/data/format.json, the vectors of docs/format.md. crates/cli/tests/it/format.rs checks
//! those that only the program reads or writes.

use std::collections::BTreeMap;

use serde_json::Value;
use uidring::{Error, Fields, Layout, ParseUidError, Uid};

const DOCS: &str = include_str!("../../docs/format.md");

fn vectors(kind: &str) -> Vec<Vector> {
    let mut all: BTreeMap<String, Vec<BTreeMap<String, Value>>> =
        serde_json::from_str(include_str!("../../docs/data/format.json")).expect("vectors");
    let vectors = all.remove(kind).expect(kind);
    assert!(!vectors.is_empty(), "{kind}");
    vectors.into_iter().map(Vector).collect()
}

#[derive(Debug)]
struct Vector(BTreeMap<String, Value>);

impl Vector {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_else(|| panic!("{name} of {self:?}"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        self.text(name).parse().ok().unwrap_or_else(|| panic!("{name} of {self:?}"))
    }

    fn uid(&self) -> Uid {
        self.number("uid")
    }

    fn fields(&self) -> Fields {
        let [tick, worker_id, sequence] =
            ["tick", "worker_id", "sequence"].map(|name| self.number(name));
        Fields { tick, worker_id, sequence }
    }

    fn layout(&self) -> Layout {
        let name = self.text("layout");
        let layouts = vectors("layouts");
        let layout = layouts.iter().find(|layout| layout.text("name") == name).expect(name);
        layout.number("layout")
    }
}

/// Reads a uid in one of the forms. Returns `None` if the library does not read that form.
fn read(form: &str, text: &str) -> Option<Result<Uid, &'static str>> {
    let read = match form {
        "dec" => text.parse(),
        "hex" => Uid::from_hex(text),
        "base62" => Uid::from_base62(text),
        "base32" => Uid::from_base32(text),
        _ => return None,
    };
    Some(read.map_err(|error| match error {
        ParseUidError::Empty => "empty",
        ParseUidError::BadCharacter { .. } => "character",
        ParseUidError::Overflow { .. } => "range",
        _ => "another reason",
    }))
}

#[test]
fn layouts_are_those_of_the_vectors() {
    let presets = [
        ("uid", Layout::UID_GENERATOR),
        ("uid-long", Layout::UID_GENERATOR_LONG),
        ("snowflake", Layout::SNOWFLAKE),
        ("leaf", Layout::SNOWFLAKE),
        ("javascript-safe", Layout::JAVASCRIPT_SAFE),
    ];
    let mut named = 0;
    for vector in vectors("layouts") {
        let layout: Layout = vector.number("layout");
        assert_eq!(layout.to_string(), vector.text("layout"));
        assert_eq!(layout.bits().to_string(), vector.text("bits"), "{vector:?}");
        assert_eq!(vector.0["tick_millis"], layout.tick().millis(), "{vector:?}");
        assert_eq!(layout.epoch().as_millis().to_string(), vector.text("epoch_millis"));
        assert_eq!(layout.max_uid(), vector.number("max_uid"), "{vector:?}");
        assert_eq!(layout.last_instant().to_string(), vector.text("last_instant"));
        let name = vector.text("name");
        if let Some((_, preset)) = presets.iter().find(|preset| preset.0 == name) {
            assert_eq!(layout, *preset, "{name}");
            let row = format!(
                "| `{name}` | {} | {} | {} |\n",
                layout.bits(),
                layout.tick(),
                layout.epoch()
            );
            assert!(DOCS.contains(&row), "docs/format.md has no row {row}");
            named += 1;
        }
    }
    assert_eq!(named, presets.len());
}

#[test]
fn layouts_that_are_none_are_refused() {
    for vector in vectors("refused_layouts") {
        let why = match vector.text("layout").parse::<Layout>() {
            Ok(layout) => panic!("{layout}"),
            Err(Error::LayoutBits { .. }) => "bits",
            Err(Error::InvalidTime(_)) => "epoch",
            Err(_) => "text",
        };
        assert_eq!(why, vector.text("why"), "{vector:?}");
    }
}

#[test]
fn fields_and_times_are_those_of_the_vectors() {
    for vector in vectors("uids") {
        let (layout, uid, fields) = (vector.layout(), vector.uid(), vector.fields());
        assert_eq!(layout.compose(fields).ok(), Some(uid), "{vector:?}");
        let decoded = layout.decode(uid).expect("of the layout");
        let Fields { tick, worker_id, sequence } = fields;
        assert_eq!(
            (decoded.tick, decoded.worker_id, decoded.sequence),
            (tick, worker_id, sequence),
            "{vector:?}"
        );
        assert_eq!(decoded.timestamp.to_string(), vector.text("time"), "{vector:?}");
    }
    for vector in vectors("refused_fields") {
        let why = match vector.layout().compose(vector.fields()) {
            Err(Error::FieldOutOfRange { field, .. }) => field,
            Err(Error::WorkerIdOutOfRange { .. }) => "worker_id",
            other => panic!("{other:?} of {vector:?}"),
        };
        assert_eq!(why, vector.text("why"), "{vector:?}");
    }
    for vector in vectors("refused_uids") {
        let decoded = vector.layout().decode(vector.uid());
        assert!(matches!(decoded, Err(Error::UidOutOfLayout { .. })), "{decoded:?} of {vector:?}");
    }
}

#[test]
fn texts_are_those_of_the_vectors() {
    for vector in vectors("uids") {
        let uid = vector.uid();
        assert_eq!(uid.to_string(), vector.text("uid"));
        assert_eq!(uid.hex(), vector.text("hex"));
        assert_eq!(uid.base62(), vector.text("base62"));
        assert_eq!(uid.base32(), vector.text("base32"));
        let bytes: String = uid.get().to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(bytes, vector.text("binary"));
        assert_eq!(read("dec", vector.text("uid")), Some(Ok(uid)));
        for form in ["hex", "base62", "base32"] {
            assert_eq!(read(form, vector.text(form)), Some(Ok(uid)), "{form} of {vector:?}");
        }
    }
    let known = |vector: &Vector| read(vector.text("form"), vector.text("text"));
    for vector in vectors("read") {
        assert!(known(&vector).is_none_or(|read| read == Ok(vector.uid())), "{vector:?}");
    }
    for vector in vectors("refused") {
        let expected = Err(vector.text("why"));
        assert!(known(&vector).is_none_or(|read| read == expected), "{vector:?}");
    }
}

#[test]
fn texts_sort_like_numbers_where_the_docs_say_so() {
    let mut uids: Vec<Uid> = vectors("uids").iter().map(Vector::uid).collect();
    uids.sort_unstable();
    uids.dedup();
    let sorts = |form: fn(&Uid) -> String| uids.iter().map(form).is_sorted_by(|a, b| a < b);
    assert!(sorts(|uid| uid.hex().into()));
    assert!(sorts(|uid| uid.base62().into()));
    assert!(sorts(|uid| uid.base32().into()));
    assert!(uids.iter().map(|uid| uid.hex()).is_sorted());
    assert!(uids.iter().map(|uid| uid.base62()).is_sorted());
    assert!(uids.iter().map(|uid| uid.base32()).is_sorted());
    assert!(!sorts(Uid::to_string), "the vectors have numbers of different lengths");
}

#[cfg(feature = "serde")]
#[test]
fn json_values_are_those_of_the_vectors() {
    use serde_json::from_str;
    use uidring::serde_forms::string;

    #[derive(serde::Serialize)]
    struct AsText(#[serde(with = "string")] Uid);

    for vector in vectors("uids") {
        let uid = vector.uid();
        let number = serde_json::to_string(&uid).expect("serializes");
        assert_eq!(number, vector.text("uid"));
        let text = serde_json::to_string(&AsText(uid)).expect("serializes");
        assert_eq!(text, format!("\"{number}\""));
        for json in [number, text] {
            assert_eq!(from_str::<Uid>(&json).ok(), Some(uid), "{json}");
        }
    }
    // Only the program reads objects.
    let is_value = |vector: &Vector| {
        vector.text("form") == "json" && !vector.text("text").trim_start().starts_with('{')
    };
    for vector in vectors("read").iter().filter(|vector| is_value(vector)) {
        assert_eq!(from_str::<Uid>(vector.text("text")).ok(), Some(vector.uid()), "{vector:?}");
    }
    for vector in vectors("refused").iter().filter(|vector| is_value(vector)) {
        let read = from_str::<Uid>(vector.text("text"));
        assert!(read.is_err(), "{read:?} of {vector:?}");
    }
}
