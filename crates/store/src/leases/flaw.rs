//! Rows of leases that a change has made unusable. Each affects only those who want that row.

use uidring::Layout;

use crate::sql::fits;
use crate::{Fitting, WorkerRange};

/// Stands for the last sequence number of a tick.
pub const WHOLE_TICK: i64 = i64::MAX;

/// Leaves room for the token to grow when the row is taken and when it is given back.
const MAX_TOKEN: i64 = i64::MAX - 2;

/// Returns the SQL condition that a row can be used for this layout and range. It is never NULL.
pub fn is_sound(layout: &Layout, range: Option<WorkerRange>) -> String {
    format!(
        "({} AND TOKEN BETWEEN 0 AND {MAX_TOKEN}
         AND (HORIZON_TICK IS NULL AND HORIZON_SEQUENCE IS NULL
         OR HORIZON_TICK IS NOT NULL AND HORIZON_TICK >= 0) AND
         (HORIZON_SEQUENCE IS NULL OR HORIZON_SEQUENCE BETWEEN 0 AND {}
         OR HORIZON_SEQUENCE = {WHOLE_TICK}))",
        fits(Fitting::new(layout, range)),
        layout.max_sequence()
    )
}

/// Returns what is wrong with a row that cannot be used. `names` are the store's names of worker id, token, tick and
/// sequence number.
pub fn flaw(
    layout: &str,
    worker_id: u64,
    token: i64,
    horizon: (Option<i64>, Option<i64>),
    names: [&str; 4],
) -> Option<String> {
    let layout = layout.parse::<Layout>().ok();
    let max = |of: fn(&Layout) -> u64| layout.as_ref().map_or(i64::MAX, |l| of(l).cast_signed());
    let (max_id, max_sequence) = (max(Layout::max_worker_id), max(Layout::max_sequence));
    let is_sound = |value: i64, max| (0..=max).contains(&value);
    let used = "set the horizon to the last tick and sequence number that it may have used";
    let (tick, sequence) = horizon;
    let worker_id = worker_id.cast_signed();
    let (name, value, max, remedy) = if !is_sound(worker_id, max_id) {
        (names[0], Some(worker_id), max_id, "remove the row")
    } else if !is_sound(token, MAX_TOKEN) {
        (names[1], Some(token), MAX_TOKEN, "set it to one that the row has not had")
    } else if !tick.map_or(sequence.is_none(), |tick| is_sound(tick, i64::MAX)) {
        // A sequence number without a tick means that somebody removed the tick. Ids would repeat.
        (names[2], tick, i64::MAX, used)
    } else if !sequence.is_none_or(|number| number == WHOLE_TICK || is_sound(number, max_sequence))
    {
        (names[3], sequence, max_sequence, used)
    } else {
        return None;
    };
    let value = value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
    Some(format!("{name} is {value}, and has to be 0 to {max}; {remedy}"))
}
