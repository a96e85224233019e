//! Sorts numbers, even more than fit into memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

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
        let mut bytes = Vec::with_capacity(1 << 16);
        for part in self.numbers.chunks(bytes.capacity() / 8) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|number| number.to_le_bytes()));
            file.write_all(&bytes)?;
        }
        self.runs.push(self.numbers.len());
        self.numbers.clear();
        Ok(())
    }

    fn merge(self, mut visit: impl FnMut(u64)) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        // Whole numbers, so that none straddles two reads.
        let buffer = (self.capacity / self.runs.len()).clamp(512, 8_192) * 8;
        drop(self.numbers);
        let mut start = 0;
        let mut runs = Vec::new();
        let mut heads = BinaryHeap::new();
        for length in self.runs {
            let end = start + length as u64 * 8;
            let mut run = BufReader::with_capacity(buffer, Run { file, next: start, end });
            start = end;
            if let Some(head) = head(&mut run)? {
                heads.push(Reverse((head, runs.len())));
            }
            runs.push(run);
        }
        while let Some(Reverse((number, run))) = heads.pop() {
            visit(number);
            if let Some(head) = head(&mut runs[run])? {
                heads.push(Reverse((head, run)));
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
    next: u64,
    end: u64,
}

impl Read for Run<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
        let limit = out.len().min(left);
        self.file.seek(SeekFrom::Start(self.next))?;
        let read = self.file.read(&mut out[..limit])?;
        self.next += read as u64;
        Ok(read)
    }
}

fn head(run: &mut BufReader<Run<'_>>) -> io::Result<Option<u64>> {
    if run.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    run.read_exact(&mut bytes)?;
    Ok(Some(u64::from_le_bytes(bytes)))
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
