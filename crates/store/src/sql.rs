//! The SQL that stores share. A [`Dialect`] holds what differs between databases.
//!
//! Parameters are `?`, in the order of the text.

use crate::{Fitting, WorkerRange};

/// What a database writes in its own way.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The present time as `UIDRING_LEASE` stores it: UTC, with milliseconds.
    pub now: &'static str,
    /// The same plus a parameter: microseconds on a server, seconds in SQLite.
    pub now_plus: &'static str,
    /// Milliseconds since 1970 of such a time; NULL if it is not a time.
    pub millis: fn(&str) -> String,
    /// The day in UTC.
    pub today: &'static str,
    /// `CREATED` of `WORKER_NODE` in seconds since 1970.
    pub created_seconds: &'static str,
    /// The present time in seconds since 1970.
    pub now_seconds: &'static str,
    /// The time a parameter of days ago, in the form of `CREATED` of `WORKER_NODE`.
    pub days_ago: &'static str,
    /// The same for a parameter of seconds.
    pub seconds_ago: &'static str,
    /// A time column as text, in UTC if the column has a time zone.
    pub text: fn(&str) -> String,
    /// A day column as text.
    pub day: fn(&str) -> String,
    /// An operator that is true for equal values and for two NULLs.
    pub same: &'static str,
    /// Makes a condition on `UIDRING_LEASE` skip the rows that others have locked, if the database can.
    pub unlocked: fn(&str) -> String,
    /// Follows the name of `leaf_alloc`, so that rows are found and locked by their key alone.
    pub by_key: &'static str,
    /// Makes an INSERT do nothing if the key in this column exists; empty if that is an error.
    pub or_nothing: fn(&str) -> String,
    /// Removes rows of `WORKER_NODE` that meet a condition, up to a parameter of them, and locks no others.
    pub prune: fn(&str) -> String,
    /// What a table of segments needs so that a statement changes one row.
    pub one_row: &'static str,
    /// What else it needs.
    pub in_engine: &'static str,
    /// What column `ID` of `WORKER_NODE` needs in order to generate keys.
    pub generated_key: &'static str,
    /// The statement that sets its counter, and what else to do if the counter went backwards.
    pub set_counter: &'static str,
}

/// The greatest worker id of a start.
pub const NEWEST_NODE: &str = "SELECT MAX(ID) FROM WORKER_NODE";

/// A layout in `UIDRING_LEASE` that differs from the parameter.
pub const FOREIGN_LAYOUT: &str = "SELECT LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? LIMIT 1";

/// The table's layout, set by [`Dialect::insert_layout`], as an expression; NULL before that.
pub const TABLE_LAYOUT: &str = "(SELECT LAYOUT FROM UIDRING_LEASE WHERE WORKER_ID = -1)";

/// The greatest worker id of a lease.
pub const NEWEST_LEASE: &str = "SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0";

/// The lowest leased worker id between two parameters.
pub const LOWEST_LEASE: &str =
    "SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID BETWEEN ? AND ?";

/// Adds a tag: name, first id, step, description.
pub const INSERT_TAG: &str =
    "INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time)
    VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)";

/// The condition that a row of `UIDRING_LEASE` has one of these worker ids.
pub fn fits(fitting: Fitting) -> String {
    // Without a range, an operator may have added worker id 0.
    let first = fitting.range.map_or(0, WorkerRange::first);
    format!("WORKER_ID BETWEEN {first} AND {}", fitting.last())
}

/// [`Dialect::prune`] for databases whose DELETE has no limit.
pub fn prune_by_key(is_old: &str) -> String {
    format!(
        "DELETE FROM WORKER_NODE WHERE ID IN
         (SELECT ID FROM WORKER_NODE WHERE {is_old} ORDER BY ID LIMIT ?)"
    )
}

/// `WORKER_NODE`. Type 0 marks the row below a range, which is no start.
impl Dialect {
    /// Adds a row: host, port and type.
    pub fn insert_node(&self) -> String {
        format!(
            "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES (?, ?, ?, {}, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
            self.today
        )
    }

    /// Adds the row below a range: its ID, and the range as text.
    pub fn insert_seed(&self) -> String {
        format!(
            "INSERT INTO WORKER_NODE (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES (?, 'worker ids begin above this row', ?, 0, {}, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
            self.today
        )
    }

    /// All starts, in the order of the fields of [`WorkerNode`](crate::WorkerNode).
    pub fn list_nodes(&self) -> String {
        let day = (self.day)("LAUNCH_DATE");
        let [modified, created] = ["MODIFIED", "CREATED"].map(self.text);
        format!(
            "SELECT ID, HOST_NAME, PORT, TYPE, {day}, {modified}, {created}
             FROM WORKER_NODE WHERE TYPE <> 0 ORDER BY ID"
        )
    }

    /// The number of rows, the greatest id, the present time in seconds, and the greatest id older than a parameter of
    /// days.
    pub fn count_nodes(&self) -> String {
        format!(
            "SELECT COUNT(*), MAX(ID), {}, MAX(CASE WHEN CREATED < {} THEN ID END) FROM WORKER_NODE WHERE TYPE <> 0",
            self.now_seconds, self.days_ago
        )
    }

    /// Id and time in seconds of the first row younger than a parameter of days.
    pub fn first_node(&self) -> String {
        format!(
            "SELECT ID, {} FROM WORKER_NODE WHERE CREATED >= {} AND TYPE <> 0 ORDER BY ID LIMIT 1",
            self.created_seconds, self.days_ago
        )
    }

    /// Removes rows with an id below a parameter and older than a parameter of seconds, up to a parameter of them.
    pub fn prune_nodes(&self) -> String {
        (self.prune)(&format!("ID < ? AND CREATED <= {}", self.seconds_ago))
    }
}

/// `UIDRING_LEASE`.
impl Dialect {
    /// Adds the row that sets the table's layout, its parameter. The row has no worker id, and looks held, so that
    /// other programs leave it alone.
    ///
    /// If starts of two layouts find no lease at the same time, the unique key lets only one add the row, even in a
    /// cluster whose nodes commit at once. A store that serializes its operations can look at the leases instead.
    pub fn insert_layout(&self) -> String {
        self.insert_lease("-1, 'the layout of all leases', 0, '9999-12-31', NULL, NULL")
    }

    /// The condition that a row is a lease that nobody holds.
    pub fn is_free(&self) -> String {
        format!("(WORKER_ID >= 0 AND (LEASE_END IS NULL OR LEASE_END <= {}))", self.now)
    }

    /// All leases if the parameter, which is given twice, is NULL; otherwise the lease of that worker id. The columns
    /// are in the order of the fields of [`LeaseRow`](crate::LeaseRow), with times in milliseconds.
    pub fn list_leases(&self) -> String {
        format!(
            "{} WHERE WORKER_ID >= 0 AND (? IS NULL OR WORKER_ID = ?) ORDER BY WORKER_ID",
            self.select_leases()
        )
    }

    /// The first free lease that is not sound, with the same columns.
    pub fn find_flawed_lease(&self, is_sound: &str) -> String {
        let is_free = self.is_free();
        format!(
            "{} WHERE {is_free} AND NOT {is_sound} ORDER BY WORKER_ID LIMIT 1",
            self.select_leases()
        )
    }

    fn select_leases(&self) -> String {
        let [end, created, renewed] = ["LEASE_END", "CREATED", "RENEWED"].map(self.millis);
        format!(
            "SELECT WORKER_ID, OWNER, TOKEN, {end}, {}, HORIZON_TICK, HORIZON_SEQUENCE, LAYOUT,
             {created}, {renewed} FROM UIDRING_LEASE",
            self.is_free()
        )
    }

    /// Adds a held row: worker id, owner, length of the lease, layout.
    pub fn insert_held_lease(&self) -> String {
        self.insert_lease(&format!("?, ?, 1, {}, NULL, NULL", self.now_plus))
    }

    /// Adds a free row: worker id, the horizon's tick and sequence number, layout.
    pub fn insert_free_lease(&self) -> String {
        self.insert_lease("?, '', 0, NULL, ?, ?")
    }

    /// Adds a row with these values, and a layout.
    fn insert_lease(&self, values: &str) -> String {
        let Self { now, .. } = self;
        format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, HORIZON_TICK,
             HORIZON_SEQUENCE, LAYOUT, CREATED, RENEWED) VALUES ({values}, ?, {now}, {now})"
        )
    }

    /// How many of these worker ids are held, in how many milliseconds the first of them ends, and how many are leased.
    pub fn count_leases(&self, fitting: Fitting) -> String {
        let [end, now] = ["MIN(LEASE_END)", self.now].map(self.millis);
        let fits = fits(fitting);
        format!(
            "SELECT COUNT(*), {end} - {now}, (SELECT COUNT(*) FROM UIDRING_LEASE WHERE {fits})
             FROM UIDRING_LEASE WHERE {fits} AND NOT {}",
            self.is_free()
        )
    }

    /// Worker id and horizon tick of the free, sound row with the lowest horizon above a parameter.
    pub fn least_ahead(&self, is_sound: &str) -> String {
        format!(
            "SELECT WORKER_ID, HORIZON_TICK FROM UIDRING_LEASE WHERE HORIZON_TICK > ? AND {} AND {is_sound}
             ORDER BY HORIZON_TICK LIMIT 1",
            self.is_free()
        )
    }

    /// Ends the lease of a worker id, whoever holds it.
    pub fn fence(&self) -> String {
        let Self { now, .. } = self;
        format!(
            "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = {now},
             LEASE_END = CASE WHEN LEASE_END IS NOT NULL THEN {now} END WHERE WORKER_ID = ?"
        )
    }

    /// Frees a worker id that nobody holds.
    pub fn free(&self) -> String {
        format!(
            "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = {}, LEASE_END = NULL
             WHERE WORKER_ID = ? AND {}",
            self.now,
            self.is_free()
        )
    }
}

/// `leaf_alloc`.
impl Dialect {
    /// All tags, in the order of the fields of [`SegmentTag`](uidring::segment::SegmentTag).
    pub fn list_tags(&self) -> String {
        format!("{} ORDER BY biz_tag", self.select_tags())
    }

    /// The tag of this name.
    pub fn find_tag(&self) -> String {
        format!("{} WHERE biz_tag = ?", self.select_tags())
    }

    fn select_tags(&self) -> String {
        let updated = (self.text)("update_time");
        format!("SELECT biz_tag, max_id, step, description, {updated} FROM leaf_alloc")
    }
}
