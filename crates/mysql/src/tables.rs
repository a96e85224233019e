//! What errors and checks know of the tables.

/// A table, as errors name it.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    /// It, and those that are used with it.
    pub all: &'static [&'static str],
    /// Whose script makes it.
    pub origin: &'static str,
    /// The subcommand that makes it.
    pub command: &'static str,
    /// What else to do if it is missing.
    pub or: &'static str,
    /// What the account has to be granted.
    pub rights: &'static str,
}

pub const WORKER_NODE: Table = Table {
    name: "WORKER_NODE",
    all: &["WORKER_NODE"],
    origin: "Baidu's",
    command: "uidring worker init",
    or: ", or allow the first start to",
    rights: "an assignment needs SELECT and INSERT on the table, pruning also DELETE",
};

pub const LEAF_ALLOC: Table = Table {
    name: "leaf_alloc",
    all: &["leaf_alloc"],
    origin: "Leaf's",
    command: "uidring segment create",
    or: ", with its first tag",
    rights: "a load needs SELECT and UPDATE on the table, a new tag INSERT",
};

pub const UIDRING_LEASE: Table = Table {
    name: "UIDRING_LEASE",
    all: &["UIDRING_LEASE", "WORKER_NODE"],
    origin: "this program's",
    command: "uidring worker init --leases",
    or: ", or allow the first start to",
    rights: "a lease needs SELECT, INSERT and UPDATE on UIDRING_LEASE, and SELECT and INSERT on \
             WORKER_NODE",
};
