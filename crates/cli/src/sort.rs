//! Sorts numbers, even more than fit into memory.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use crate::failure::Failure;

/// How many numbers to sort in memory: 64 MiB. Merging takes as much. Debug builds spill to the disk sooner, so that
/// tests do.
const IN_MEMORY: usize = if cfg!(debug_assertions) { 1 << 18 } else { 8 << 20 };

/// Sorted runs of numbers, one after another in a temporary file that has no name and only its owner can read.
pub struct Sorter {
    numbers: Vec<u64>,
    capacity: usize,
    file: Option<File>,
    /// The length of each run in the file, in numbers.
    runs: Vec<usize>,
}

impl Sorter {
    pub fn new() -> Self {
        Self { numbers: Vec::new(), capacity: IN_MEMORY, file: None, runs: Vec::new() }
    }

    pub fn push(&mut self, number: u64) -> Result<(), Failure> {
        if self.numbers.len() == self.capacity {
            self.spill().map_err(failure)?;
        }
        self.numbers.push(number);
        Ok(())
    }

    /// Calls `visit` with each number, in ascending order.
    pub fn finish(mut self, visit: impl FnMut(u64)) -> Result<(), Failure> {
        if self.file.is_none() {
            self.numbers.sort_unstable();
            self.numbers.into_iter().for_each(visit);
            return Ok(());
        }
        self.spill().and_then(|()| self.merge(visit)).map_err(failure)
    }

    fn spill(&mut self) -> io::Result<()> {
        self.numbers.sort_unstable();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let mut file = BufWriter::with_capacity(1 << 16, file);
        for number in &self.numbers {
            file.write_all(&number.to_le_bytes())?;
        }
        file.flush()?;
        self.runs.push(self.numbers.len());
        self.numbers.clear();
        Ok(())
    }

    fn merge(self, mut visit: impl FnMut(u64)) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let portion = (self.capacity / self.runs.len()).clamp(512, 8_192);
        drop(self.numbers);
        let (mut start, mut runs, mut heads) = (0, Vec::new(), BinaryHeap::new());
        for left in self.runs {
            let mut run = Run { file, portion, start, left, numbers: VecDeque::new() };
            start += left as u64 * 8;
            heads.extend(run.next()?.map(|head| Reverse((head, runs.len()))));
            runs.push(run);
        }
        while let Some(mut head) = heads.peek_mut() {
            let Reverse((number, run)) = &mut *head;
            visit(*number);
            match runs[*run].next()? {
                Some(next) => *number = next,
                None => drop(PeekMut::pop(head)),
            }
        }
        Ok(())
    }
}

fn failure(error: io::Error) -> Failure {
    let folder = env::temp_dir();
    Failure::Failed(format!(
        "sorting ids with a temporary file in {}: {error}; it needs 8 bytes per id: set TMPDIR to a \
         folder with more room",
        folder.display()
    ))
}

/// One run. All runs share the file, and seek before they read.
struct Run<'a> {
    file: &'a File,
    /// How many numbers to read at once.
    portion: usize,
    /// Where the unread numbers begin in the file.
    start: u64,
    /// How many numbers are unread.
    left: usize,
    numbers: VecDeque<u64>,
}

impl Run<'_> {
    fn next(&mut self) -> io::Result<Option<u64>> {
        if self.numbers.is_empty() {
            let mut bytes = vec![0; self.portion.min(self.left) * 8];
            self.file.seek(SeekFrom::Start(self.start))?;
            self.file.read_exact(&mut bytes)?;
            let (numbers, _) = bytes.as_chunks();
            self.numbers.extend(numbers.iter().copied().map(u64::from_le_bytes));
            self.start += bytes.len() as u64;
            self.left -= numbers.len();
        }
        Ok(self.numbers.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_order_each_as_often_as_it_was_given() {
        for (count, capacity) in [(0, 4), (3, 4), (4, 4), (5, 4), (10_000, 7), (10_000, 9_999)] {
            let mut sorter = Sorter { capacity, ..Sorter::new() };
            let mut random = fastrand::Rng::with_seed(count);
            let mut given: Vec<u64> = (0..count).map(|_| random.u64(..5_000)).collect();
            for number in &given {
                assert!(sorter.push(*number).is_ok());
            }
            let mut sorted = Vec::new();
            assert!(sorter.finish(|number| sorted.push(number)).is_ok());
            given.sort_unstable();
            assert_eq!(sorted, given, "{count} in runs of {capacity}");
        }
    }
}
