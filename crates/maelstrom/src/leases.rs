//! Leases in `lin-kv`: a key per worker id, whose value is `{"token", "holder", "horizon"}`.
//!
//! Every change replaces the very value that was read before. So a request that is late changes nothing once
//! another one has come first, and who reads the value after a lost answer knows which of them it was.

use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Error, Fields, StoreError, StoreErrorKind, Uid, Worker, WorkerRequest, WorkerSource,
};

use crate::lin_kv::{KvError, LinKv};

/// How often a change is tried against answers that do not come.
const TRIES: usize = 20;

/// A source of one worker id.
pub struct LinKvLeases {
    kv: LinKv,
    worker_id: u64,
}

impl LinKvLeases {
    pub fn new(kv: LinKv, worker_id: u64) -> Self {
        Self { kv, worker_id }
    }
}

impl WorkerSource for LinKvLeases {
    /// Takes the worker id over, from an earlier start of this node. That one may still run, up to the horizon
    /// that it has stored: this one starts above.
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let holder = format!("{}-{}", process::id(), since.as_nanos());
        let key = format!("uidring/{}", self.worker_id);
        let mut row = Row { kv: self.kv.clone(), key, holder, value: Value::Null };
        let mut after = Value::Null;
        row.change(|now| {
            after = now["horizon"].clone();
            let token = now["token"].as_u64().unwrap_or(0) + 1;
            Some(json!({ "token": token, "horizon": after }))
        })?;
        let layout = request.layout;
        let after = after.as_u64().map(|tick| {
            let sequence = layout.max_sequence();
            layout.compose(Fields { tick, worker_id: self.worker_id, sequence })
        });
        let mut terms = LeaseTerms::default();
        terms.renew_every = Duration::from_secs(1);
        terms.reserve = Duration::from_secs(2);
        Ok(Lease::new(layout, self.worker_id, after.transpose()?, terms, row)?.into())
    }
}

/// The key of a worker id, and its value as this holder has stored it.
struct Row {
    kv: LinKv,
    key: String,
    holder: String,
    value: Value,
}

impl Row {
    /// Changes the value to what `next` makes of it, or ends with `Ok(false)` where that is nothing.
    fn change(&mut self, mut next: impl FnMut(&Value) -> Option<Value>) -> Result<bool, Error> {
        let mut from = self.value.clone();
        let mut tries = 0;
        loop {
            let Some(mut to) = next(&from) else { return Ok(false) };
            to["holder"] = json!(self.holder);
            let done = self.kv.replace(&self.key, &from, &to);
            if let Ok(true) = done {
                self.value = to;
                return Ok(true);
            }
            // Without an answer, it may have been done, or will be: what is read now is replaced next.
            match done.and_then(|_| self.kv.read(&self.key)) {
                Ok(now) if now == to => {
                    self.value = to;
                    return Ok(true);
                }
                Ok(now) => from = now,
                Err(error) if tries >= TRIES => return Err(failed(error)),
                Err(KvError::NoAnswer) => {}
                Err(error) => return Err(failed(error)),
            }
            tries += 1;
        }
    }
}

impl LeaseBackend for Row {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let (token, holder) = (self.value["token"].clone(), self.holder.clone());
        let changed = self.change(|now| {
            let is_held = now["token"] == token && now["holder"] == *holder;
            // A late request of this holder's may have stored a greater one.
            let horizon = now["horizon"].as_u64().map_or(horizon, |stored| stored.max(horizon));
            is_held.then(|| json!({ "token": token, "horizon": horizon }))
        });
        match changed {
            Ok(true) => Ok(()),
            Ok(false) => Err(RenewError::Lost(failed("a later start of this node has the lease"))),
            Err(error) => Err(RenewError::Failed(error)),
        }
    }

    /// Leaves it as it is: nobody else wants the worker id.
    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    StoreError::new(StoreErrorKind::Unreachable, cause).into()
}
