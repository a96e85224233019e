//! No alarms: the model checker has no time.

use std::task::Waker;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn set(&mut self, _: Duration, _: &Waker) {}
}
