//! Files of the ids that a process took, as ranges, so that there can be very many. A process may use an id once it is
//! noted, and be killed at any time.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A file of ranges, each with its first id and its length.
pub struct Record {
    file: File,
    /// The range that may still grow.
    open: (u64, u64),
    /// Whether ranges may be held back until the next begins, because nothing kills the process.
    keeps: bool,
}

impl Record {
    /// Begins a process's record in this folder. Ids of one space must be unique across all processes. If nothing kills
    /// the process (`keeps`), ranges are written once they are complete.
    pub fn begin(folder: &Path, space: &str, keeps: bool) -> Self {
        let plain = |c: char| if c.is_alphanumeric() || c == '-' { c } else { '_' };
        let space: String = space.chars().map(plain).collect();
        // Process ids repeat within an hour.
        let name = format!("{space}.{}-{:016x}", std::process::id(), fastrand::u64(..));
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

    /// Writes with one call, which a kill does not split.
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

#[derive(Default)]
pub struct Account {
    /// The number of ids and of ranges by space.
    pub spaces: BTreeMap<String, (u64, usize)>,
    /// Ids that were taken twice, and by whom.
    pub twice: Vec<String>,
}

impl Account {
    pub fn read(folder: &Path) -> Self {
        let mut names = Vec::new();
        let mut spaces: BTreeMap<String, Vec<(u64, u64, usize)>> = BTreeMap::new();
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("UTF-8");
            let (space, _) = name.split_once('.').expect("a space");
            let bytes = fs::read(entry.path()).expect("read");
            let number = names.len();
            // The writer was killed while it wrote this range, and never used it.
            let ranges = bytes.chunks_exact(16).map(|pair| {
                let word = |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("8"));
                (word(0), word(8), number)
            });
            spaces.entry(space.into()).or_default().extend(ranges);
            names.push(name);
        }
        let mut account = Self::default();
        for (space, mut ranges) in spaces {
            ranges.sort_unstable();
            let twice = ranges.windows(2).filter(|pair| pair[0].0 + pair[0].1 > pair[1].0);
            account.twice.extend(twice.map(|pair| {
                let [(first, count, one), (next, more, other)] = pair else { unreachable!("two") };
                let [one, other] = [one, other].map(|number| &names[*number]);
                format!("{space}: {count} ids from {first} of {one}, {more} from {next} of {other}")
            }));
            let ids = ranges.iter().map(|range| range.1).sum();
            account.spaces.insert(space, (ids, ranges.len()));
        }
        account
    }
}
