//! Tags by name: a tree that only grows, so that looking a name up takes no lock.

use std::sync::{Arc, OnceLock};

use super::tag::Tag;

/// Each node holds a tag, and has the nodes below it by the next bits of their names' hashes.
#[derive(Debug)]
pub(super) struct Names {
    roots: Box<[OnceLock<Box<Node>>]>,
}

#[derive(Debug)]
struct Node {
    hash: u64,
    tag: Arc<Tag>,
    below: [OnceLock<Box<Node>>; 1 << BITS],
}

/// How many bits of the hash tell the nodes below a node apart.
const BITS: u32 = 3;

/// How many tell the roots apart: with 10,000 tags a look-up goes through four nodes or so.
const ROOT_BITS: u32 = 8;

impl Names {
    pub(super) fn new() -> Self {
        Self { roots: (0..1 << ROOT_BITS).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<&Arc<Tag>> {
        let hash = hash(name);
        let mut bits = hash >> ROOT_BITS;
        let mut place = &self.roots[hash as usize & ((1 << ROOT_BITS) - 1)];
        loop {
            let node = place.get()?;
            if node.hash == hash && node.tag.name() == name {
                return Some(&node.tag);
            }
            place = &node.below[bits as usize & ((1 << BITS) - 1)];
            bits >>= BITS;
        }
    }

    /// Adds a tag whose name is not there.
    pub(super) fn insert(&self, tag: Arc<Tag>) {
        let hash = hash(tag.name());
        let mut bits = hash >> ROOT_BITS;
        let mut place = &self.roots[hash as usize & ((1 << ROOT_BITS) - 1)];
        let below = std::array::from_fn(|_| OnceLock::new());
        let mut node = Box::new(Node { hash, tag, below });
        while let Err(back) = place.set(node) {
            node = back;
            let Some(taken) = place.get() else { return };
            place = &taken.below[bits as usize & ((1 << BITS) - 1)];
            bits >>= BITS;
        }
    }
}

/// Eight bytes at a time, each mixed in by a multiplication. Whoever may create tags could choose
/// names that collide, and would slow down nobody but himself.
#[inline]
fn hash(name: &str) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = name.len() as u64;
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
    }
    // The high bits of a product are the mixed ones.
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::super::tag::tests::tag;
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let names = Names::new();
        let all: Vec<String> = (0..5_000).map(|n| format!("tag-{n}")).collect();
        for (count, name) in all.iter().enumerate() {
            assert!(names.find(name).is_none(), "{name}");
            names.insert(tag(name));
            if count % 500 == 0 {
                assert!(all[..=count].iter().all(|name| names.find(name).is_some()));
            }
        }
        for name in &all {
            assert_eq!(names.find(name).map(|tag| tag.name()), Some(&**name));
        }
        assert!(names.find("").is_none() && names.find("tag-").is_none());
    }

    #[test]
    fn names_that_differ_a_little_have_different_hashes() {
        let mut hashes: Vec<u64> =
            (0..100_000).map(|n| hash(&format!("a.rather.long.prefix.{n}"))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100_000);
        assert_ne!(hash("a"), hash("a\0"));
    }
}
