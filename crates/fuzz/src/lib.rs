//! What must hold for every input of a parser, besides that it does not panic.
//!
//! `scripts/fuzz` lets libFuzzer invent inputs. Those that reached something new are in `corpus`, which the tests
//! replay.

mod addresses;
mod database;
mod files;
#[cfg(target_os = "linux")]
mod region;
mod texts;

use uidring_server::fuzzing::{batch, resp, thrift};

/// Panics if an input violates the rules.
pub type Check = fn(&[u8]);

/// The parsers by name, with their checks.
pub const TARGETS: &[(&str, Check)] = &[
    ("batch", batch),
    ("database", database::sqlite),
    ("etcd", addresses::etcd),
    ("layout", texts::layout),
    ("mysql", addresses::mysql),
    ("numbers", texts::numbers),
    ("ordinal", texts::ordinal),
    ("pem", files::pem),
    ("postgres", addresses::postgres),
    #[cfg(target_os = "linux")]
    ("region", region::attach),
    ("resp", resp),
    ("secrets", files::secrets),
    ("thrift", thrift),
    ("time", texts::time),
    ("uid", texts::uid),
    ("url", addresses::url),
    ("zookeeper", addresses::zookeeper),
];

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        let read = |path| fs::read(path).expect("its bytes");
        let inputs: Vec<_> = files.map(|file| read(file.expect("a file").path())).collect();
        assert!(inputs.len() >= 5, "{} files in {folder:?}", inputs.len());
        inputs
    }

    #[test]
    fn the_corpus_holds() {
        for &(name, check) in TARGETS {
            corpus(name).iter().for_each(|input| check(input));
        }
    }

    /// Random changes of the corpus; `UIDRING_FUZZ_ROUNDS` sets the inputs per parser.
    #[test]
    fn changed_inputs_hold() {
        let rounds = env::var("UIDRING_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for &(name, check) in TARGETS {
            let inputs = corpus(name);
            for _ in 0..rounds.unwrap_or(100) {
                let mut input = inputs[random.usize(..inputs.len())].clone();
                for _ in 0..random.usize(1..5) {
                    change(&mut input, &inputs, &mut random);
                }
                // Printed if it fails.
                println!("{name}, seed {seed}: {:?}", String::from_utf8_lossy(&input));
                check(&input);
            }
        }
    }

    fn change(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut fastrand::Rng) {
        let place = random.usize(..=input.len());
        let other = &others[random.usize(..others.len())];
        let part = &other[random.usize(..=other.len())..];
        let part = &part[..part.len().min(random.usize(..8))];
        match random.u8(..4) {
            0 if place < input.len() => drop(input.remove(place)),
            1 if place < input.len() => input[place] = random.u8(..),
            2 => input
                .insert(place, random.choice(b"0159-+:/@.,%?#[]= \n\0azZ").copied().unwrap_or(0)),
            _ => drop(input.splice(place..place, part.iter().copied())),
        }
    }
}
