//! What a server must provide so that no id repeats: durable settings and tables of a known version. Each test needs
//! its own process, because the log is per process.

use uidring::segment::LoadError;
use uidring::{Error, Layout};
use uidring_store::server::{Engine, ServerStore};
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

use super::{TestedEngine, load, new_tag, shared, store, told};
use crate::database::Databases;
use crate::log::Log;
use crate::request;

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// Creates all tables and a tag.
pub fn create<E: Engine>(store: &ServerStore<E>) {
    store.leases().create().expect("made");
    let segments = store.segments().create_table_if_missing(true);
    segments.create_tag(&new_tag("t", 10)).expect("created");
}

/// Uses each kind of table, and returns the errors.
pub fn use_all<E: Engine>(store: &ServerStore<E>) -> [Option<String>; 3] {
    let assigned = store.worker_nodes().assign(&LAYOUT).err();
    let leased = store.leases().lease(&request(LAYOUT), &LeaseOptions::default()).err();
    let loaded = load(&mut store.segments(), "t").err();
    let [assigned, leased] = [assigned, leased].map(|error| error.map(|error| told(&error, store)));
    [assigned, leased, loaded.map(|error| told(&error, store))]
}

pub fn settings_that_may_lose_commits_are_told_once_and_refused_on_demand<T: TestedEngine>() {
    let log = Log::start();
    for (settings, risk) in T::RISKS {
        let database = T::Kind::start_with(settings).database();
        log.clear();
        let store = store::<T>(&database);
        create(&store);
        assert_eq!(use_all(&store), [None, None, None], "{settings:?}");
        assert_eq!(use_all(&store), [None, None, None], "{settings:?}");
        assert_eq!(log.lines("so that ids repeat"), usize::from(risk.is_some()), "{}", log.text());
        let strict = store.clone().require_durability();
        let Some(risk) = risk else {
            assert_eq!(use_all(&strict), [None, None, None], "{settings:?}");
            continue;
        };
        assert_eq!(log.lines(risk), 1, "{settings:?}: {}", log.text());
        assert!(!log.text().contains("p@ss"), "{}", log.text());
        let used = || store.worker_nodes().usage().expect("counted").newest;
        let before = used();
        for text in use_all(&strict) {
            assert!(text.is_some_and(|text| text.contains(risk)), "refused");
        }
        assert_eq!(used(), before, "nothing was spent");
    }

    let database = shared::<T>();
    create(&store::<T>(&database));
    for (table, refusals) in T::TABLES.into_iter().zip([2, 1, 1]) {
        // A store reports a risk once, for whichever table.
        let store = store::<T>(&database);
        database.execute(&T::make_forgetful(table));
        log.clear();
        use_all(&store);
        let advice = T::make_durable(table);
        assert_eq!(log.lines(&advice), 1, "{}", log.text());
        let refused = use_all(&store.require_durability());
        // A lease also needs the table of worker ids.
        let found = refused.iter().flatten().filter(|text| text.contains(&advice)).count();
        assert_eq!(found, refusals, "{refused:?}");
        database.execute(&advice);
    }
}

pub fn tables_say_their_version_and_a_later_one_is_refused<T: TestedEngine>() {
    let database = shared::<T>();
    let store = store::<T>(&database);
    create(&store);
    let counts = || {
        database.column(
            "SELECT COUNT(*) FROM WORKER_NODE UNION ALL SELECT SUM(TOKEN) FROM UIDRING_LEASE
             UNION ALL SELECT max_id FROM leaf_alloc",
        )
    };
    let comment = |table, text| database.execute(&T::set_comment(table, text));
    // In the order of `use_all`: which uses need the table.
    let needed = [[true, true, false], [false, true, false], [false, false, true]];
    for (table, needed) in T::TABLES.into_iter().zip(needed) {
        let text = &database.column(&T::comment(table))[0];
        assert!(text.starts_with("uidring version 1"), "{text}");
        // A table from Baidu's or Leaf's script has no version.
        for text in ["", "DB WorkerID Assigner for UID Generator"] {
            comment(table, text);
            assert_eq!(use_all(&store), [None, None, None], "{table}");
        }
        comment(table, "uidring version 2: who knows");
        let before = counts();
        for (done, needed) in use_all(&store).into_iter().zip(needed) {
            let text = done.unwrap_or_default();
            let is_refused = ["version 2", "another version", table];
            assert_eq!(is_refused.iter().all(|words| text.contains(words)), needed, "{text}");
        }
        if needed[2] {
            let error = load(&mut store.segments(), "t");
            assert!(matches!(error, Err(LoadError::Refused(Error::Store(_)))));
        }
        let changed = before.iter().zip(counts()).zip(needed).filter(|((a, b), _)| **a != *b);
        assert!(changed.clone().all(|(_, needed)| !needed), "{table} was changed");
        comment(table, "uidring version 1");
        assert_eq!(use_all(&store), [None, None, None], "{table}");
    }
}
