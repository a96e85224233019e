//! Tags by name, in a tree that only grows, so that a look-up takes no lock.

use std::sync::{Arc, OnceLock};

use super::tag::Tag;

/// A hash trie. Each node holds a tag, and its children are indexed by the next bits of the hash.
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

/// Bits of the hash per level.
const BITS: u32 = 2;

/// Bits for the root. With 10,000 tags, a look-up passes four or five nodes.
const ROOT_BITS: u32 = 8;

impl Names {
    pub(super) fn new() -> Self {
        Self { roots: (0..1 << ROOT_BITS).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<&Arc<Tag>> {
        let hash = hash(name);
        let mut bits = hash >> ROOT_BITS;
        let mut link = &self.roots[hash as usize & ((1 << ROOT_BITS) - 1)];
        loop {
            let node = link.get()?;
            if node.hash == hash && node.tag.name() == name {
                return Some(&node.tag);
            }
            link = &node.below[bits as usize & ((1 << BITS) - 1)];
            bits >>= BITS;
        }
    }

    pub(super) fn insert(&self, tag: Arc<Tag>) {
        let hash = hash(tag.name());
        let mut bits = hash >> ROOT_BITS;
        let mut link = &self.roots[hash as usize & ((1 << ROOT_BITS) - 1)];
        let below = std::array::from_fn(|_| OnceLock::new());
        let mut node = Box::new(Node { hash, tag, below });
        while let Err(back) = link.set(node) {
            node = back;
            let Some(taken) = link.get() else { return };
            link = &taken.below[bits as usize & ((1 << BITS) - 1)];
            bits >>= BITS;
        }
    }
}

/// Multiplies in eight bytes at a time. Whoever may create tags could choose colliding names, but would only slow
/// themselves down.
#[inline]
fn hash(name: &str) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash.rotate_left(29) ^ word).wrapping_mul(ODD);
    let hash =
        words.iter().fold(name.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let rest = match rest {
        [] => 0,
        // Up to seven bytes by two loads that may overlap: copying so few costs more.
        [a, b, c, d, ..] => {
            let [.., w, x, y, z] = rest else { return hash };
            let (low, high) = ([*a, *b, *c, *d], [*w, *x, *y, *z]);
            u64::from(u32::from_le_bytes(low)) << 32 | u64::from(u32::from_le_bytes(high))
        }
        [first, .., last] => {
            let middle = rest[rest.len() / 2];
            u64::from_le_bytes([*first, middle, *last, 0, 0, 0, 0, 0])
        }
        [only] => u64::from(*only),
    };
    let hash = mix(hash, rest);
    // A product's high bits are the mixed ones.
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tag::tests::tag;

    #[test]
    #[cfg_attr(miri, ignore = "takes very long")]
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
    #[cfg_attr(miri, ignore = "takes very long")]
    fn names_that_differ_a_little_have_different_hashes() {
        let mut hashes: Vec<u64> =
            (0..100_000).map(|n| hash(&format!("a.rather.long.prefix.{n}"))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100_000);
        assert_ne!(hash("a"), hash("a\0"));
    }
}
