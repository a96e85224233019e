//! Rows of leases that cannot be used, because somebody has changed them. They stop nobody but those who want this
//! very row.

use uidring::Layout;

/// Stands for the last sequence number of a tick.
pub const WHOLE_TICK: i64 = i64::MAX;

/// A token grows when a row is taken, and when it is given back.
const MAX_TOKEN: i64 = i64::MAX - 2;

/// Returns the condition, in SQL, that a row of this layout can be used.
pub fn is_sound(layout: &Layout) -> String {
    format!(
        "(TOKEN BETWEEN 0 AND {MAX_TOKEN} AND (HORIZON_TICK IS NULL OR HORIZON_TICK >= 0) AND
         (HORIZON_SEQUENCE IS NULL OR HORIZON_SEQUENCE BETWEEN 0 AND {}
         OR HORIZON_SEQUENCE = {WHOLE_TICK}))",
        layout.max_sequence()
    )
}

/// Returns what is wrong with a row that cannot be used. Its store calls token, tick and sequence number by these
/// names.
pub fn flaw(
    layout: &str,
    token: i64,
    horizon: (Option<i64>, Option<i64>),
    names: [&str; 3],
) -> Option<String> {
    let layout = layout.parse::<Layout>().ok();
    let max_sequence = layout.map_or(i64::MAX, |layout| layout.max_sequence().cast_signed());
    let (tick, sequence) = horizon;
    let is_wrong = |value: &i64, max| !(0..=max).contains(value);
    let used = "set the horizon to the last tick and sequence number that it may have used";
    let (name, value, max, remedy) = if is_wrong(&token, MAX_TOKEN) {
        (names[0], token, MAX_TOKEN, "set it to one that the row has not had")
    } else if let Some(tick) = tick.filter(|tick| *tick < 0) {
        (names[1], tick, i64::MAX, used)
    } else {
        let wrong = |value: &i64| *value != WHOLE_TICK && is_wrong(value, max_sequence);
        (names[2], sequence.filter(wrong)?, max_sequence, used)
    };
    Some(format!("{name} is {value}, and has to be 0 to {max}; {remedy}"))
}
