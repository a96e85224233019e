//! SQL's `now` by a clock that tests move, for the model of leases.

use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use uidring::clock::{Clock, ManualClock};

/// SQLite's functions of time, and the place of the time among their arguments.
const FUNCTIONS: [(&str, usize); 6] = [
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    // After the format.
    ("strftime", 1),
];

thread_local! {
    /// Has SQLite's own functions.
    static CALENDAR: Connection = Connection::open_in_memory().expect("memory");
}

/// Gives the connection functions of time in place of SQLite's. They name the clock's time where a
/// statement says `now`, or nothing, and leave all else to SQLite's.
pub fn install(connection: &Connection, clock: &Arc<dyn Clock>) -> rusqlite::Result<()> {
    for (name, place) in FUNCTIONS {
        let clock = Arc::clone(clock);
        connection.create_scalar_function(
            name,
            -1,
            FunctionFlags::SQLITE_UTF8,
            move |context| {
                let values = (0..context.len()).map(|index| context.get_raw(index).try_into());
                let mut values = values.collect::<Result<Vec<Value>, _>>()?;
                set_present(&mut values, place, &*clock);
                let marks = vec!["?"; values.len()].join(", ");
                CALENDAR.with(|calendar| {
                    calendar
                        .prepare_cached(&format!("SELECT {name}({marks})"))?
                        .query_row(params_from_iter(values), |row| row.get::<_, Value>(0))
                })
            },
        )?;
    }
    Ok(())
}

fn set_present(values: &mut Vec<Value>, place: usize, clock: &dyn Clock) {
    let now = || Value::Text(clock.now().to_string());
    let is = |value: &Value, word: &str| matches!(ValueRef::from(value), ValueRef::Text(text) if text.eq_ignore_ascii_case(word.as_bytes()));
    match values.get_mut(place) {
        Some(value) if is(value, "now") => *value = now(),
        Some(value) if !is(value, "subsec") && !is(value, "subsecond") => {}
        // SQLite takes a time that is not there for the present one.
        _ => values.insert(place, now()),
    }
}

#[test]
fn statements_read_the_clock_that_was_given() {
    let clock = ManualClock::new("2026-06-01T00:00:00.250Z".parse().expect("a time"));
    let connection = Connection::open_in_memory().expect("memory");
    install(&connection, &(Arc::new(clock.clone()) as Arc<dyn Clock>)).expect("installed");
    let read = |sql: &str| {
        connection
            .query_row(&format!("SELECT CAST({sql} AS TEXT)"), [], |row| row.get::<_, String>(0))
            .expect(sql)
    };
    assert_eq!(read("strftime('%Y-%m-%d %H:%M:%f', 'now')"), "2026-06-01 00:00:00.250");
    assert_eq!(
        read("strftime('%Y-%m-%d %H:%M:%f', 'now', '+1.500 seconds')"),
        "2026-06-01 00:00:01.750"
    );
    clock.set("2026-05-01".parse().expect("a time"));
    assert_eq!(read("datetime('now', '-1 days')"), "2026-04-30 00:00:00");
    assert_eq!(read("date()"), "2026-05-01");
    let seconds = clock.now().as_millis() / 1_000;
    assert_eq!(read("unixepoch()"), seconds.to_string());
    assert_eq!(read("unixepoch('subsec')"), format!("{seconds}.0"));
    // All else is SQLite's.
    assert_eq!(read("unixepoch('1970-01-01 00:01:00')"), "60");
}
