//! Tables whose policies, triggers or rows are not as they should be: what the errors say, and who goes on.

use std::time::Duration;

use uidring::segment::LoadError;
use uidring::{CachedUidGenerator, Layout, StoreErrorKind};
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::{chain, request, servers};

use crate::support::store;

/// What prevents a change without an error.
const NOTHING: &str = "CREATE FUNCTION nothing() RETURNS TRIGGER LANGUAGE plpgsql AS
    'BEGIN RETURN NULL; END'";

fn database() -> Database {
    let database = Postgres::shared().database();
    store(&database).leases().create().expect("made");
    let segments = store(&database).segments().create_table_if_missing(true);
    for tag in ["t", "u"] {
        segments.create_tag(&NewSegmentTag::new(tag, 10).expect("allowed")).expect("created");
    }
    database
}

fn load(database: &Database, tag: &str) -> Result<u64, LoadError> {
    servers::load(&mut store(database).segments(), tag).map(|range| range.start)
}

fn lease(database: &Database) -> Result<uidring::worker::Lease, uidring::Error> {
    let options = LeaseOptions::default().lasts(Duration::from_secs(120));
    store(database).leases().lease(&request(Layout::UID_GENERATOR), &options)
}

#[test]
fn a_tag_that_policies_hide_or_protect_is_not_said_to_be_gone() {
    let database = database();
    let force = "ALTER TABLE leaf_alloc ENABLE ROW LEVEL SECURITY;
                 ALTER TABLE leaf_alloc FORCE ROW LEVEL SECURITY";
    database.execute(force);
    for (policy, words) in [
        ("", "sees no tag `t` in leaf_alloc, whose row-level security may hide it"),
        ("FOR SELECT", "no policy of its row-level security lets this account change it"),
    ] {
        if !policy.is_empty() {
            database.execute(&format!("CREATE POLICY seen ON leaf_alloc {policy} USING (TRUE)"));
        }
        let error = load(&database, "t").expect_err("hidden");
        assert!(matches!(error, LoadError::Refused(_)), "{error:?}");
        assert!(chain(&error).contains(words), "{}", chain(&error));
        let error = store(&database).segments().set_step("t", 5).expect_err("hidden");
        assert!(chain(&error).contains(words), "{}", chain(&error));
    }
    database.execute("CREATE POLICY changed ON leaf_alloc FOR UPDATE USING (TRUE)");
    assert_eq!(load(&database, "t").expect("loaded"), 1);
    let error = load(&database, "none").expect_err("no such tag");
    assert!(!matches!(error, LoadError::NoSuchTag { .. }), "it may be hidden: {error:?}");
    database.execute("ALTER TABLE leaf_alloc NO FORCE ROW LEVEL SECURITY");
    let error = load(&database, "none").expect_err("no such tag");
    assert!(matches!(error, LoadError::NoSuchTag { .. }), "{error:?}");
}

#[test]
fn a_lease_that_cannot_be_changed_is_not_said_to_be_locked() {
    let database = database();
    drop(lease(&database).expect("free"));
    database.execute(NOTHING);
    for (prevent, words, back) in [
        (
            "CREATE TRIGGER nothing BEFORE UPDATE ON UIDRING_LEASE FOR EACH ROW
             EXECUTE FUNCTION nothing()",
            "a trigger, rule or policy of the table prevents it",
            "DROP TRIGGER nothing ON UIDRING_LEASE",
        ),
        (
            "CREATE POLICY seen ON UIDRING_LEASE FOR SELECT USING (TRUE);
             ALTER TABLE UIDRING_LEASE ENABLE ROW LEVEL SECURITY;
             ALTER TABLE UIDRING_LEASE FORCE ROW LEVEL SECURITY",
            "no policy of its row-level security lets this account change it",
            "ALTER TABLE UIDRING_LEASE DISABLE ROW LEVEL SECURITY",
        ),
    ] {
        database.execute(prevent);
        let error = lease(&database).expect_err("not changed");
        let is_denied =
            matches!(&error, uidring::Error::Store(e) if e.kind() == StoreErrorKind::Denied);
        assert!(is_denied, "{error:?}");
        let text = chain(&error);
        assert!(text.contains("worker id 1 is free in UIDRING_LEASE"), "{text}");
        assert!(text.contains(words) && !text.contains("attempts"), "{text}");
        database.execute(back);
        drop(lease(&database).expect("free"));
    }
}

/// Nothing was lost: the text said that the store had lost commits.
#[test]
fn a_renewal_that_changes_nothing_says_so() {
    let database = database();
    let lease = lease(&database).expect("free");
    database.execute(NOTHING);
    database.execute(
        "CREATE TRIGGER nothing BEFORE UPDATE ON UIDRING_LEASE FOR EACH ROW
         EXECUTE FUNCTION nothing()",
    );
    let builder = CachedUidGenerator::builder().layout(Layout::UID_GENERATOR).namespace(fresh());
    let text = chain(&builder.worker(lease).build().expect_err("not renewed"));
    assert!(text.contains("a change of it changes nothing"), "{text}");
}

#[test]
fn inserts_and_loads_that_change_nothing_say_so() {
    let database = database();
    database.execute(NOTHING);
    database.execute(
        "CREATE TRIGGER nothing BEFORE INSERT ON WORKER_NODE FOR EACH ROW EXECUTE FUNCTION nothing();
         CREATE TRIGGER nothing BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION nothing()",
    );
    let error = store(&database).worker_nodes().assign(&Layout::UID_GENERATOR);
    let text = chain(&error.expect_err("no row"));
    assert!(text.contains("may prevent an INSERT"), "{text}");
    let error = load(&database, "t").expect_err("not changed");
    let text = chain(&error);
    assert!(matches!(error, LoadError::Refused(_)), "{error:?}");
    assert!(text.contains("tag `t`") && text.contains("changes nothing"), "{text}");
}

/// It must not go round until the deadline, and say that something is locked.
#[test]
fn a_layout_that_cannot_be_set_says_so() {
    let database = database();
    database.execute(NOTHING);
    database.execute(
        "TRUNCATE UIDRING_LEASE;
         CREATE TRIGGER nothing BEFORE INSERT ON UIDRING_LEASE FOR EACH ROW EXECUTE FUNCTION nothing()",
    );
    let text = chain(&lease(&database).expect_err("no layout"));
    assert!(text.contains("WORKER_ID -1") && text.contains("prevents it"), "{text}");
}
