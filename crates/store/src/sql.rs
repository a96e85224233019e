//! The statements that stores with SQL share. A [`Dialect`] has what differs between databases.
//!
//! Parameters are `?`, in the order of the text.

use crate::{Fitting, WorkerRange};

/// What a database writes differently from others.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The present time as the columns of `UIDRING_LEASE` hold it, in UTC with milliseconds.
    pub now: &'static str,
    /// The same, later by a parameter: microseconds on a server, seconds in SQLite.
    pub now_plus: &'static str,
    /// Milliseconds since 1970 of such a time; NULL for what is none.
    pub millis: fn(&str) -> String,
    /// The day in UTC.
    pub today: &'static str,
    /// Seconds since 1970 of `CREATED` of `WORKER_NODE`.
    pub created_seconds: &'static str,
    /// The present time in seconds since 1970.
    pub now_seconds: &'static str,
    /// The time a parameter of days ago, as `CREATED` of `WORKER_NODE` holds it.
    pub days_ago: &'static str,
    /// The same for a parameter of seconds.
    pub seconds_ago: &'static str,
    /// A column of time as text, in UTC where the column knows its zone.
    pub text: fn(&str) -> String,
    /// A column of a day as text.
    pub day: fn(&str) -> String,
    /// An operator that is true for equal values, and for NULL and NULL.
    pub same: &'static str,
    /// A condition on rows of `UIDRING_LEASE` which leaves out those that others have locked, where the
    /// database can.
    pub unlocked: fn(&str) -> String,
    /// What follows the name of `leaf_alloc` so that rows are found, and locked, by their key alone.
    pub by_key: &'static str,
    /// What makes an INSERT do nothing if the key in this column exists; empty where that is an error.
    pub or_nothing: fn(&str) -> String,
    /// Removes the rows of `WORKER_NODE` that meet a condition, a parameter of them at most, and locks no others.
    pub prune: fn(&str) -> String,
    /// What a table of segments needs, so that a statement changes one row.
    pub one_row: &'static str,
    /// More of what it needs.
    pub in_engine: &'static str,
    /// What column `ID` of `WORKER_NODE` needs, so that it generates keys.
    pub generated_key: &'static str,
    /// The statement that sets its counter, and what else to do if that went backwards.
    pub set_counter: &'static str,
}

/// The greatest worker id of a start.
pub const NEWEST_NODE: &str = "SELECT MAX(ID) FROM WORKER_NODE";

/// The layout of a row of `UIDRING_LEASE` that has another one than a parameter.
pub const FOREIGN_LAYOUT: &str = "SELECT LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? LIMIT 1";

/// The layout of the table, which [`Dialect::insert_layout`] sets, as an expression; NULL before.
pub const TABLE_LAYOUT: &str = "(SELECT LAYOUT FROM UIDRING_LEASE WHERE WORKER_ID = -1)";

/// The greatest worker id of a lease.
pub const NEWEST_LEASE: &str = "SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0";

/// The lowest worker id between two parameters that has a lease.
pub const LOWEST_LEASE: &str =
    "SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID BETWEEN ? AND ?";

/// Adds a tag: its name, first id, step and description.
pub const INSERT_TAG: &str =
    "INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time)
    VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)";

/// The condition that a row of `UIDRING_LEASE` has one of these worker ids.
pub fn fits(fitting: Fitting) -> String {
    // Without a range, a row of worker id 0 may have been added by hand.
    let first = fitting.range().map_or(0, WorkerRange::first);
    format!("WORKER_ID BETWEEN {first} AND {}", fitting.last())
}

/// Removes rows of `WORKER_NODE` as [`Dialect::prune`] says, where DELETE has no limit.
pub fn prune_by_key(is_old: &str) -> String {
    format!(
        "DELETE FROM WORKER_NODE WHERE ID IN
         (SELECT ID FROM WORKER_NODE WHERE {is_old} ORDER BY ID LIMIT ?)"
    )
}

/// `WORKER_NODE`. The type 0 is that of the row below a range, which no start has.
impl Dialect {
    /// Adds a row: host, port and type.
    pub fn insert_node(&self) -> String {
        format!(
            "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES (?, ?, ?, {}, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
            self.today
        )
    }

    /// Adds the row below the first worker id of a range: its ID, and the range as a text.
    pub fn insert_seed(&self) -> String {
        format!(
            "INSERT INTO WORKER_NODE (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES (?, 'worker ids begin above this row', ?, 0, {}, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
            self.today
        )
    }

    /// All rows, in the order of the fields of [`WorkerNode`](crate::WorkerNode).
    pub fn list_nodes(&self) -> String {
        let day = (self.day)("LAUNCH_DATE");
        let [modified, created] = ["MODIFIED", "CREATED"].map(self.text);
        format!(
            "SELECT ID, HOST_NAME, PORT, TYPE, {day}, {modified}, {created}
             FROM WORKER_NODE WHERE TYPE <> 0 ORDER BY ID"
        )
    }

    /// The number of rows, the greatest id, the present time in seconds, and the greatest id of the rows
    /// older than a parameter of days.
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

    /// Removes the rows with an id below a parameter that are older than a parameter of seconds, a parameter
    /// of them at most.
    pub fn prune_nodes(&self) -> String {
        (self.prune)(&format!("ID < ? AND CREATED <= {}", self.seconds_ago))
    }
}

/// `UIDRING_LEASE`.
impl Dialect {
    /// Adds the row that sets the layout of the table, and has no worker id: the layout. It seems to be held, so
    /// that other programs leave it alone.
    ///
    /// Of starts of two layouts that find no lease at the same time, one adds it, and the other meets it: a key
    /// is unique in all databases, also where nodes of a cluster commit at once. Where an operation is one
    /// transaction for all others, a look at the leases does.
    pub fn insert_layout(&self) -> String {
        let Self { now, .. } = self;
        format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
             VALUES (-1, 'the layout of all leases', 0, '9999-12-31', ?, {now}, {now})"
        )
    }

    /// Whether a row is a lease that nobody holds.
    pub fn is_free(&self) -> String {
        format!("(WORKER_ID >= 0 AND (LEASE_END IS NULL OR LEASE_END <= {}))", self.now)
    }

    /// All leases if the parameter, which comes twice, is NULL, else the one of that worker id; in the order
    /// of the fields of [`LeaseColumns`](crate::leases::LeaseColumns), with times in milliseconds.
    pub fn list_leases(&self) -> String {
        format!(
            "{} WHERE WORKER_ID >= 0 AND (? IS NULL OR WORKER_ID = ?) ORDER BY WORKER_ID",
            self.select_leases()
        )
    }

    /// The first lease that nobody holds and that is not sound; the same columns.
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

    /// Adds a row that is held: worker id, owner, how long the lease lasts, layout.
    pub fn insert_held_lease(&self) -> String {
        let Self { now, now_plus, .. } = self;
        format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
             VALUES (?, ?, 1, {now_plus}, ?, {now}, {now})"
        )
    }

    /// Adds a row that is free: worker id, tick and sequence number of its horizon, layout.
    pub fn insert_free_lease(&self) -> String {
        let Self { now, .. } = self;
        format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, HORIZON_TICK,
             HORIZON_SEQUENCE, LAYOUT, CREATED, RENEWED)
             VALUES (?, '', 0, NULL, ?, ?, ?, {now}, {now})"
        )
    }

    /// How many leases of these worker ids are held, in how many milliseconds the first of them ends, and how many
    /// there are.
    pub fn count_leases(&self, fitting: Fitting) -> String {
        let [end, now] = ["MIN(LEASE_END)", self.now].map(self.millis);
        let fits = fits(fitting);
        format!(
            "SELECT COUNT(*), {end} - {now}, (SELECT COUNT(*) FROM UIDRING_LEASE WHERE {fits})
             FROM UIDRING_LEASE WHERE {fits} AND NOT {}",
            self.is_free()
        )
    }

    /// Worker id and horizon tick of the free and sound row with the lowest horizon above a parameter.
    pub fn least_ahead(&self, is_sound: &str) -> String {
        format!(
            "SELECT WORKER_ID, HORIZON_TICK FROM UIDRING_LEASE WHERE HORIZON_TICK > ? AND {} AND {is_sound}
             ORDER BY HORIZON_TICK LIMIT 1",
            self.is_free()
        )
    }

    /// Ends the lease of a worker id, no matter who holds it.
    pub fn fence(&self) -> String {
        let Self { now, .. } = self;
        format!(
            "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = {now},
             LEASE_END = CASE WHEN LEASE_END IS NOT NULL THEN {now} END WHERE WORKER_ID = ?"
        )
    }

    /// Frees a worker id that nobody holds any more.
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
