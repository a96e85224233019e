//! The value of a lease's key.

use serde_json::{Value, json};
use std::time::Duration;
use uidring::Timestamp;
use uidring_store::leases::{Horizon, LeaseRow, LeaseState, LeasedRow, flaw};

use crate::client::Client;
use crate::key_value::{Answer, KeyValue, get, modified_at, put};
use crate::node::{VERSION, field, read, worker_id};
use crate::problem::Problem;

/// Who has the worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Given back, or never held.
    Free,
    /// Held, unless the holder has died.
    Held,
    /// An operator ended the lease.
    Fenced,
}

/// A lease as it was read, and the revision that wrote it.
#[derive(Clone, Debug)]
pub struct Row {
    pub worker_id: u64,
    pub owner: String,
    pub token: i64,
    pub state: State,
    /// How long the lease lasts after each change of the key.
    pub lasts: Duration,
    pub horizon: Option<Horizon>,
    pub layout: String,
    /// For people, by the clock of the host that did it.
    pub created: Timestamp,
    pub renewed: Timestamp,
    pub revision: i64,
}

const STATES: [(State, &str); 3] =
    [(State::Free, "free"), (State::Held, "held"), (State::Fenced, "fenced")];

impl Row {
    /// A free row of a worker id that nobody has leased.
    pub fn new(worker_id: u64, layout: &str, now: Timestamp) -> Self {
        Self {
            worker_id,
            owner: String::new(),
            token: 1,
            state: State::Free,
            lasts: Duration::ZERO,
            horizon: None,
            layout: layout.to_owned(),
            created: now,
            renewed: now,
            revision: 0,
        }
    }

    /// Reads a value. A flaw concerns this value alone; a wrong version may concern all.
    pub fn read(found: &KeyValue) -> Result<Self, Problem> {
        let value = read(found)?;
        let damaged =
            |what: &str| Problem::Flawed(format!("the value of {} has no {what}", found.key));
        let text =
            |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(|| damaged(name));
        let time = |name: &str| {
            value[name].as_i64().map(Timestamp::from_millis).ok_or_else(|| damaged(name))
        };
        let state = STATES.iter().find(|(_, name)| value["state"] == *name);
        let number = |name: &str| match &value["horizon"][name] {
            Value::Null => Ok(None),
            number => number.as_i64().map(Some).ok_or_else(|| damaged("horizon")),
        };
        let (tick, sequence) = (number("tick")?, number("sequence")?);
        if tick.is_none() && !value["horizon"].is_null() {
            return Err(damaged("horizon"));
        }
        let row = Self {
            worker_id: worker_id(found)?,
            owner: text("owner")?,
            token: field(found, &value, "token")?.cast_signed(),
            state: state.ok_or_else(|| damaged("state"))?.0,
            lasts: Duration::from_millis(field(found, &value, "lasts_ms")?),
            horizon: LeasedRow::horizon(tick, sequence),
            layout: text("layout")?,
            created: time("created")?,
            renewed: time("renewed")?,
            revision: found.mod_revision,
        };
        let names = ["its worker id", "token", "horizon.tick", "horizon.sequence"];
        match flaw(&row.layout, row.worker_id, row.token, (tick, sequence), names) {
            Some(flaw) => Err(Problem::Flawed(format!("the value of {}: {flaw}", found.key))),
            None => Ok(row),
        }
    }

    pub fn write(&self) -> String {
        let state = STATES.iter().find(|(state, _)| *state == self.state).map(|(_, name)| *name);
        json!({
            "version": VERSION,
            "owner": self.owner,
            "token": self.token,
            "state": state,
            "lasts_ms": u64::try_from(self.lasts.as_millis()).unwrap_or(u64::MAX),
            "horizon": self.horizon.map(|h| json!({"tick": h.tick, "sequence": h.sequence})),
            "layout": self.layout,
            "created": self.created.as_millis(),
            "renewed": self.renewed.as_millis(),
        })
        .to_string()
    }

    /// How long a key must stay unchanged before others may have the worker id. It is a tenth longer than the lease,
    /// because clocks run at different rates.
    pub fn patience(&self) -> Duration {
        self.lasts + self.lasts / 10
    }

    /// The row for people. Its end depends on the clocks of this host and the holder's.
    pub fn shown(self, now: Timestamp) -> LeaseRow {
        let end = self.renewed.saturating_add(self.lasts);
        let state = match self.state {
            State::Free => LeaseState::Free,
            State::Fenced => LeaseState::Expired(self.renewed),
            State::Held => {
                let is_over = now > self.renewed.saturating_add(self.patience());
                LeaseState::of(Some(end), is_over)
            }
        };
        LeaseRow {
            worker_id: self.worker_id,
            owner: self.owner,
            token: self.token,
            horizon: self.horizon.map(|horizon| (horizon.tick, horizon.sequence)),
            state,
            layout: self.layout,
            created: self.created,
            renewed: self.renewed,
        }
    }
}

/// Writes `next` unless the key has changed since `seen` was read. If it has, the answer says what is there now.
pub fn replace(client: &mut Client, seen: &Row, next: Row) -> Result<(Answer, Row), Problem> {
    let key = client.store.lease(seen.worker_id);
    let unchanged = [modified_at(&key, seen.revision)];
    let answer = client.transact(&unchanged, &[put(&key, &next.write())], &[get(&key)])?;
    let row = Row { revision: answer.revision, ..next };
    Ok((answer, row))
}
