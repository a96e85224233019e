//! The counter that worker ids come from.
//!
//! etcd counts the changes of a key: its version. Each change of the counter yields a worker id, its version offset by
//! a base in the value. No two changes make the same version, even if nothing is compared, so a thousand simultaneous
//! starts need not wait for each other.

use serde_json::{Value, json};
use uidring::Layout;
use uidring_store::{Fitting, TableError, WorkerRange};

use crate::EtcdStore;
use crate::client::Client;
use crate::key_value::{
    Answer, KeyValue, bump, get, get_last, is_absent, put, value_is, version_below, version_is,
};
use crate::node::{VERSION, field, read, worker_id};
use crate::problem::Problem;

/// The greatest base and worker id, so that their sum fits.
const MAX: i64 = i64::MAX / 2;

/// How often the counter is read. After [`TRIES_AT_ONCE`], only people can get in the way.
const READINGS: usize = 8;

/// How often others may change the counter while a range is recorded.
const RECORDINGS: usize = 64;

/// How many attempts count up and create the rows in one transaction.
const TRIES_AT_ONCE: usize = 4;

pub struct Counter {
    key: String,
    value: String,
    base: i64,
    version: i64,
    /// The layout of the leases. Once set, it stays.
    layout: Option<String>,
    /// The range of the worker ids. Once set, it stays.
    pub range: Option<WorkerRange>,
}

impl Counter {
    /// Reads the counter. Creates it if the prefix has no worker ids yet.
    pub fn open(client: &mut Client) -> Result<Self, Problem> {
        let counter = Self::look(client)?;
        if counter.version > 0 {
            return Ok(counter);
        }
        let Self { key, value, layout, range, .. } = counter;
        let create = [put(&key, &value), get(&key)];
        let answer = client.transact(&[is_absent(&key)], &create, &[get(&key)])?;
        Self::read(&answer.first().ok_or(Problem::Contended)?, layout, range)
    }

    /// Reads the counter. A missing one has version 0 and the value that it would be created with.
    pub fn look(client: &mut Client) -> Result<Self, Problem> {
        let [key, layout, range, nodes, leases] =
            ["counter", "layout", "range", "nodes/", "leases/"].map(|name| client.store.key(name));
        let look = [get(&key), get(&layout), get(&range), get_last(&nodes), get_last(&leases)];
        let reads = client.transact(&[], &look, &[])?.reads;
        let Ok([counter, layout, range, nodes, leases]) = <[_; 5]>::try_from(reads) else {
            return Err(Problem::NotEtcd { status: 200 });
        };
        let layout = layout.first().map(layout_of).transpose()?;
        let range = range.first().map(range_of).transpose()?;
        let ids: Result<Vec<_>, _> = nodes.iter().chain(&leases).map(worker_id).collect();
        let greatest = ids?.into_iter().max();
        let counter = match counter.first() {
            Some(found) => Self::read(found, layout, range)?,
            None => {
                let base = range.map_or(1, |range| range.first().cast_signed());
                Self { value: value(base), key, base, version: 0, layout, range }
            }
        };
        match greatest {
            // The counter was deleted, or restored alone, and would repeat worker ids.
            Some(id) if counter.version == 0 || counter.newest() < greatest => {
                Err(went_back(&counter.key, id))
            }
            _ => Ok(counter),
        }
    }

    fn read(
        found: &KeyValue,
        layout: Option<String>,
        range: Option<WorkerRange>,
    ) -> Result<Self, Problem> {
        let base = field(found, &read(found)?, "base")?.cast_signed();
        if !(1..=MAX).contains(&base) {
            return Err(Problem::Damaged(format!(
                "the base of {} is {}, and has to be 1 to {MAX}; set it to the first worker id",
                found.key,
                base.cast_unsigned()
            )));
        }
        let (key, value) = (found.key.clone(), found.value.clone());
        Ok(Self { key, value, base, version: found.version, layout, range })
    }

    /// Returns the rows to put with a lease of this layout: the layout, if none is set yet. If starts with two layouts
    /// race, one of them succeeds.
    pub fn claim(&self, store: &EtcdStore, layout: &str) -> Result<Rows, Problem> {
        match &self.layout {
            None => {
                let value = json!({"version": VERSION, "layout": layout}).to_string();
                Ok(vec![(store.key("layout"), Some(value))])
            }
            Some(found) if found == layout => Ok(Rows::new()),
            Some(found) => Err(foreign(store, found, layout)),
        }
    }

    /// The greatest worker id so far, or a number below all later ones.
    pub fn newest(&self) -> Option<u64> {
        // The first change created the counter.
        let newest = self.base.checked_add(self.version)?.checked_sub(2)?;
        (newest > 0).then_some(newest.cast_unsigned())
    }
}

/// Keys that must not exist yet, with the values to put there, if any.
pub type Rows = Vec<(String, Option<String>)>;

/// The value of a counter that begins at this worker id.
fn value(base: i64) -> String {
    json!({"version": VERSION, "base": base}).to_string()
}

pub struct Spent {
    pub worker_id: u64,
    /// The answer to the transaction that created its rows.
    pub answer: Answer,
    pub range: Option<WorkerRange>,
}

/// Spends the next worker id and creates its rows. Spends none, with [`Problem::Unfit`], if it does not fit the layout
/// and the range. For a lease, `leased` is the layout as text.
///
/// One transaction does both, unless others are faster a few times. Then the counter is counted up first, which nobody
/// can prevent; if the rows cannot be created, that worker id is lost.
pub fn spend(
    client: &mut Client,
    layout: &Layout,
    leased: Option<&str>,
    rows: impl Fn(&EtcdStore, u64) -> Rows,
) -> Result<Spent, Problem> {
    for attempt in 0..READINGS {
        let counter = Counter::open(client)?;
        let Counter { key, value, base, version, range, .. } = &counter;
        let fitting = Fitting::new(layout, *range);
        let max = fitting.last().min(MAX.cast_unsigned()).cast_signed();
        let next = base.saturating_add(version - 1);
        if next > max || !fitting.has(next.cast_unsigned()) {
            return Err(Problem::Unfit { next: next.cast_unsigned(), fitting });
        }
        let claim = leased.map(|layout| counter.claim(&client.store, layout)).transpose()?;
        let claim = claim.unwrap_or_default();
        let is_first = !claim.is_empty();
        let mut is_same = vec![value_is(key, value)];
        if range.is_none() {
            is_same.push(is_absent(&client.store.key("range")));
        }
        let is_at_once = attempt < TRIES_AT_ONCE;
        let (worker_id, (mut compare, mut puts)) = if is_at_once {
            is_same.push(version_is(key, *version));
            (next, (is_same, vec![bump(key)]))
        } else {
            is_same.push(version_below(key, max - base + 2));
            let counted = client.transact(&is_same, &[bump(key), get(key)], &[])?;
            if !counted.succeeded {
                continue;
            }
            let found = counted.first().ok_or(Problem::Contended)?;
            (base + found.version - 2, Default::default())
        };
        let worker_id = worker_id.cast_unsigned();
        create(&[rows(&client.store, worker_id), claim], &mut compare, &mut puts);
        let answer = client.transact(&compare, &puts, &[])?;
        if answer.succeeded {
            return Ok(Spent { worker_id, answer, range: *range });
        }
        // Reading the counter again shows whether others were faster or took back worker ids. Another start may have
        // set the layout.
        if !is_at_once && !is_first {
            return Err(went_back(key, worker_id));
        }
    }
    Err(Problem::Contended)
}

/// Records a range and makes the counter begin at its first worker id, in one transaction. It fails if a start has
/// counted up in between, and a start's fails if it has not seen the range.
pub fn record(client: &mut Client, range: WorkerRange) -> Result<(), Problem> {
    for _ in 0..RECORDINGS {
        let counter = Counter::open(client)?;
        if let Err(refusal) = range.check_new(counter.range, counter.newest()) {
            return Err(Problem::Final(refusal.error(client.store.to_string(), range)));
        }
        if counter.range.is_some() {
            return Ok(());
        }
        let Counter { key, value: found, version, .. } = &counter;
        let (recorded, first, last) = (client.store.key("range"), range.first(), range.last());
        let row = json!({"version": VERSION, "first": first, "last": last}).to_string();
        let compare = [value_is(key, found), version_is(key, *version), is_absent(&recorded)];
        let mut puts = vec![put(&recorded, &row)];
        if first > 1 {
            // The put itself counts as a change.
            puts.push(put(key, &value(first.cast_signed() - version)));
        }
        if client.transact(&compare, &puts, &[])?.succeeded {
            return Ok(());
        }
    }
    Err(Problem::Contended)
}

/// Adds comparisons and puts that create these rows.
pub fn create(rows: &[Rows], compare: &mut Vec<Value>, puts: &mut Vec<Value>) {
    for (key, value) in rows.iter().flatten() {
        compare.push(is_absent(key));
        puts.extend(value.as_ref().map(|value| put(key, value)));
    }
}

fn layout_of(found: &KeyValue) -> Result<String, Problem> {
    let damaged = || Problem::Damaged(format!("the value of {} has no layout", found.key));
    read(found)?["layout"].as_str().map(str::to_owned).ok_or_else(damaged)
}

fn range_of(found: &KeyValue) -> Result<WorkerRange, Problem> {
    let value = read(found)?;
    let (first, last) = (field(found, &value, "first")?, field(found, &value, "last")?);
    WorkerRange::new(first, last).map_err(|_| {
        let key = &found.key;
        Problem::Damaged(format!(
            "the value of {key} has {first} to {last}, which is no range; correct it"
        ))
    })
}

/// The error of leases that have another layout.
pub fn foreign(store: &EtcdStore, found: &str, layout: &str) -> Problem {
    let (place, found, layout) = (store.to_string(), found.into(), layout.into());
    Problem::Final(TableError::LeaseTableLayout { place, found, layout }.into())
}

/// The error for a worker id that was handed out before.
fn went_back(key: &str, greatest: u64) -> Problem {
    Problem::Damaged(format!(
        "worker id {greatest} was handed out before, and the counter {key} is not above it: it was \
         deleted, or an older state was restored; see \"After commits were lost\" in docs/etcd.md"
    ))
}
