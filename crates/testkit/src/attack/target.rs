//! The target of an attack.

use std::time::{Duration, SystemTime};

use uidring::Layout;

use crate::suite::{Place, Store};

#[derive(Clone, Copy)]
pub struct Target {
    /// Its name in reports.
    pub name: &'static str,
    pub store: &'static dyn Store,
    /// The kinds of ids to attack.
    pub kinds: &'static [Kind],
    /// The path of the module with the tests `driver` and `attacker`.
    pub module: &'static str,
}

impl Target {
    /// Returns the path of one of its tests.
    pub(super) fn test(&self, name: &str) -> String {
        match self.module.split_once("::") {
            Some((_, module)) => format!("{module}::{name}"),
            None => name.to_owned(),
        }
    }
}

/// What an attack asks a store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Workers,
    Leases,
    Segments,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Workers, Self::Leases, Self::Segments];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Leases => "leases",
            Self::Segments => "segments",
        }
    }
}

/// The tags of a store of segments, added at the start.
pub const TAGS: [&str; 2] = ["a", "b"];

/// A layout with only three bits of worker ids, to make them scarce.
pub fn layout() -> Layout {
    use uidring::{Bits, Tick};
    let bits = Bits { time: 41, worker: 3, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Milliseconds since 1970, which all processes of the machine agree on.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("soon")
}

/// How long an operation may take under attack.
const DEADLINE: Duration = Duration::from_secs(10);

pub(super) fn place(address: String, slot: usize, unique: String) -> Place {
    Place { address, slot, unique, deadline: DEADLINE }
}
