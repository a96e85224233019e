//! What must hold of every input of a parser, besides that it does not panic.
//!
//! `scripts/fuzz` has libFuzzer make inputs up. Those that reached something new are in `corpus`, where the tests
//! find them.

mod addresses;
mod database;
mod files;
mod texts;
#[allow(dead_code, reason = "the program's own, of which the parsers alone are used")]
#[path = "../../cli/src/args/values.rs"]
mod values;

use uidring_server::fuzzing::{batch, resp, thrift};

/// What must hold of an input.
pub type Check = fn(&[u8]);

/// The parsers by name, each with its check.
pub const TARGETS: [(&str, Check); 15] = [
    ("batch", batch),
    ("database", database::sqlite),
    ("etcd", addresses::etcd),
    ("layout", texts::layout),
    ("mysql", addresses::mysql),
    ("numbers", texts::numbers),
    ("ordinal", texts::ordinal),
    ("pem", files::pem),
    ("postgres", addresses::postgres),
    ("resp", resp),
    ("secrets", files::secrets),
    ("thrift", thrift),
    ("time", texts::time),
    ("uid", texts::uid),
    ("zookeeper", addresses::zookeeper),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_corpus_holds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        for (name, check) in TARGETS {
            let folder = folder.join(name);
            let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
            let mut count = 0;
            for file in files {
                check(&fs::read(file.expect("a file").path()).expect("its bytes"));
                count += 1;
            }
            assert!(count >= 5, "{count} files in {folder:?}");
        }
    }
}
