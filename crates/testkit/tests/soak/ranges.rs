//! The account of all ids, by ranges, so that there can be very many.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A file of ranges: the first id and how many there are.
pub struct Record {
    file: File,
    /// The range that may still grow.
    open: (u64, u64),
    /// Whether ranges may wait until others begin: nobody kills the process.
    keeps: bool,
}

impl Record {
    /// Begins a record in this folder. Ids of one space are in no two ranges. If the process is not killed,
    /// ranges may wait until they are long.
    pub fn begin(folder: &Path, space: &str, keeps: bool) -> Self {
        // Numbers of processes come again within an hour.
        let name = format!("{space}.{:032x}", fastrand::u128(..));
        let file = OpenOptions::new().create_new(true).append(true).open(folder.join(name));
        Self { file: file.expect("a file"), open: (0, 0), keeps }
    }

    /// Notes ids in the order in which they were taken.
    pub fn note(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            let (first, count) = self.open;
            if count > 0 && first + count == id {
                self.open.1 += 1;
            } else {
                self.write();
                self.open = (id, 1);
            }
        }
        if !self.keeps {
            self.write();
        }
    }

    /// With one call, which a kill does not divide.
    fn write(&mut self) {
        let (first, count) = std::mem::take(&mut self.open);
        if count > 0 {
            let bytes = [first.to_le_bytes(), count.to_le_bytes()].concat();
            assert_eq!(self.file.write(&bytes).expect("written"), bytes.len());
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write();
    }
}

/// The ranges of each space, none of which has an id of another; with how many ids there are.
pub fn account(records: &Path) -> BTreeMap<String, (u64, usize)> {
    let mut spaces: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for entry in fs::read_dir(records).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        let (space, _) = name.split_once('.').expect("a space");
        let bytes = fs::read(entry.path()).expect("read");
        let ranges = bytes.chunks_exact(16).map(|pair| {
            let word = |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("8"));
            (word(0), word(8))
        });
        spaces.entry(space.into()).or_default().extend(ranges);
    }
    let mut counts = BTreeMap::new();
    for (space, mut ranges) in spaces {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let [(first, count), (next, more)] = pair else { unreachable!("two") };
            assert!(
                first + count <= *next,
                "{space}: {count} ids from {first} and {more} from {next}: some came twice"
            );
        }
        counts.insert(space, (ranges.iter().map(|range| range.1).sum(), ranges.len()));
    }
    counts
}
