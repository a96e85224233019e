//! The contract of disposable worker ids.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;

use uidring::Layout;

use super::setting::{Setting, assert_used_up, layout};
use super::store::Store;

/// Enough worker ids for every test.
const WIDE: Layout = Layout::UID_GENERATOR;

pub fn each_start_has_a_new_one_above_all_before(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let mut last = None;
    for _ in 0..20 {
        let id = setting.assign(WIDE).expect("left");
        assert!(last < Some(id), "{id} after {last:?}");
        last = Some(id);
    }
}

pub fn starts_at_once_have_one_each(store: &'static dyn Store) {
    const STARTS: usize = 40;
    let setting = Setting::shared(store);
    let (together, all) = (Barrier::new(STARTS), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for _ in 0..STARTS {
            scope.spawn(|| {
                let place = setting.place();
                together.wait();
                let id = super::setting::assign(store, &place, WIDE).expect("left");
                assert!(all.lock().expect("no panic").insert(id), "{id} twice");
            });
        }
    });
    let newest = all.into_inner().expect("no panic").pop_last();
    assert!(setting.assign(WIDE).ok() > newest, "above all of them");
}

pub fn one_that_does_not_fit_the_layout_is_refused(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let narrow = layout(2);
    let mut last = None;
    let error = loop {
        match setting.assign(narrow) {
            Ok(id) => {
                assert!(last < Some(id) && id <= narrow.max_worker_id(), "{id} after {last:?}");
                last = Some(id);
            }
            Err(error) => break error,
        }
    };
    assert!(last.is_some(), "not even one");
    assert_used_up(&error);
    assert_used_up(&setting.assign(narrow).expect_err("again"));
    assert!(setting.assign(WIDE).ok() > last, "a wider layout goes on");
}

pub fn pruning_makes_none_available_again(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let mut last = None;
    for _ in 0..3 {
        for _ in 0..3 {
            let id = setting.assign(WIDE).expect("left");
            assert!(last < Some(id), "{id} after {last:?}");
            last = Some(id);
        }
        // By the store's clock, they now belong to the past.
        thread::sleep(std::time::Duration::from_millis(20));
        setting.site().prune();
    }
}
