//! What errors and checks know about tables.

/// A table, for errors.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The table and those used with it.
    pub all: &'static [&'static str],
    /// Who publishes its script.
    pub origin: &'static str,
    /// The subcommand that creates it.
    pub command: &'static str,
    /// The rights that an account needs.
    pub rights: &'static str,
}

impl Table {
    /// Fills in `{table}`, `{origin}`, `{command}` and `{rights}` of an advice.
    pub fn fill(&self, advice: &str) -> String {
        advice
            .replace("{table}", self.name)
            .replace("{origin}", self.origin)
            .replace("{command}", self.command)
            .replace("{rights}", self.rights)
    }
}

/// Starts, each with a disposable worker id.
pub const WORKER_NODE: Table = Table {
    name: "WORKER_NODE",
    all: &["WORKER_NODE", "UIDRING_RANGE"],
    origin: "Baidu's",
    command: "uidring worker init",
    rights: "an assignment needs SELECT and INSERT on WORKER_NODE, and SELECT on UIDRING_RANGE if there is one, \
             pruning also DELETE",
};

/// Segments.
pub const LEAF_ALLOC: Table = Table {
    name: "leaf_alloc",
    all: &["leaf_alloc"],
    origin: "Leaf's",
    command: "uidring segment create TAG --step S",
    rights: "a load needs SELECT and UPDATE on leaf_alloc, a new tag INSERT",
};

/// Leased worker ids.
pub const UIDRING_LEASE: Table = Table {
    name: "UIDRING_LEASE",
    all: &["UIDRING_LEASE", "WORKER_NODE", "UIDRING_RANGE"],
    origin: "this program's",
    command: "uidring worker init --leases",
    rights: "a lease needs SELECT, INSERT and UPDATE on UIDRING_LEASE, SELECT and INSERT on WORKER_NODE, and \
             SELECT on UIDRING_RANGE if there is one",
};

/// The range of worker ids.
pub const UIDRING_RANGE: Table = Table {
    name: "UIDRING_RANGE",
    all: &["UIDRING_RANGE", "WORKER_NODE", "UIDRING_LEASE"],
    origin: "this program's",
    command: "uidring worker init --workers FIRST-LAST",
    rights: "recording a range needs CREATE, ALTER, SELECT and INSERT on the database, or to be the owner of \
             WORKER_NODE",
};

/// The comment of `WORKER_NODE` if a range is recorded.
pub const RANGE_COMMENT: &str = "uidring version 1: worker ids of the range in UIDRING_RANGE";

/// The version of the tables. A table names it in its comment, which Baidu's and Leaf's programs ignore. A table
/// without one has version 1, as their scripts create it.
const VERSION: u64 = 1;

/// Comes before the version in a table's comment.
const VERSION_MARK: &str = "uidring version ";

/// Checks the version in a table's comment.
///
/// # Errors
///
/// The text of the refusal, if it is another version.
pub fn check_version(table: &str, comment: &str) -> Result<(), String> {
    let Some(rest) = comment.strip_prefix(VERSION_MARK) else { return Ok(()) };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    match rest[..digits].parse::<u64>() {
        Ok(VERSION) => Ok(()),
        _ => Err(format!(
            "{table} has another version (its comment is `{comment}`), and this uidring uses version \
             {VERSION}: use the uidring that made it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_of_another_version_is_refused_and_others_are_not() {
        for comment in [
            "",
            "DB WorkerID Assigner for UID Generator",
            "uidring version 1",
            "uidring version 1: worker ids",
        ] {
            assert!(check_version("T", comment).is_ok(), "{comment}");
        }
        for comment in [
            "uidring version 2",
            "uidring version 0",
            "uidring version 12: worker ids",
            "uidring version x",
            "uidring version 99999999999999999999999",
        ] {
            let text = check_version("T", comment).expect_err(comment);
            assert!(text.contains(comment) && text.contains("uses version 1"), "{text}");
        }
    }
}
