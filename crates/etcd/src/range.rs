//! The range of worker ids of a prefix, which has a key of its own.

use serde_json::json;
use uidring_store::{RangeRefusal, WorkerRange};

use crate::client::Client;
use crate::counter::Counter;
use crate::key_value::{is_absent, put};
use crate::node::VERSION;
use crate::problem::Problem;

/// How often others may change the counter in between.
const READINGS: usize = 64;

/// Records a range and makes the counter begin at its first worker id, in one transaction. It fails if a start has
/// counted up in between, and a start's fails if it has not seen the range.
pub fn record(
    client: &mut Client,
    range: WorkerRange,
) -> Result<Result<(), RangeRefusal>, Problem> {
    for _ in 0..READINGS {
        let counter = Counter::open(client)?;
        let checked = range.check_new(counter.range, counter.newest());
        if counter.range.is_some() || checked.is_err() {
            return Ok(checked);
        }
        let key = client.store().range();
        let value =
            json!({"version": VERSION, "first": range.first(), "last": range.last()}).to_string();
        let mut compare = counter.is_unchanged();
        compare.push(is_absent(&key));
        let mut puts = counter.begin_at(range.first());
        puts.push(put(&key, &value));
        if client.transact(&compare, &puts, &[])?.succeeded {
            return Ok(Ok(()));
        }
    }
    Err(Problem::Contended)
}
