//! Finds ids that are probably of another layout than assumed.

use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};
use uidring_any::table::read_layout;

use crate::args::layout::NAMED;
use crate::text::span;

/// How far a burst may borrow: in the slowest layout with a name, 350 million uids in a row reach this far ahead of the
/// clock.
const BORROWED: Duration = Duration::from_secs(86_400);

/// Whether an id may be of the layout. Text that is no id mostly reads as an id of the layout's first day or of the
/// future.
pub fn may_be_made(uid: Uid, layout: &Layout) -> bool {
    const DAY: Duration = Duration::from_secs(86_400);
    let latest = SystemClock.now().saturating_add(BORROWED);
    let time = layout.decode(uid).map(|fields| fields.timestamp);
    time.is_ok_and(|time| layout.epoch().saturating_add(DAY) < time && time <= latest)
}

/// Finds ids further in the future than borrowing explains.
pub struct Plausible {
    layout: Layout,
    latest: Timestamp,
}

impl Plausible {
    pub fn new(layout: Layout) -> Self {
        Self { layout, latest: Timestamp::default() }
    }

    /// Says what is wrong with the time of an id. Returns `None` if nothing is, or if the id is not of the layout.
    pub fn problem(&mut self, uid: Uid) -> Option<String> {
        let time = self.layout.decode(uid).ok()?.timestamp;
        if time <= self.latest {
            return None;
        }
        // Read the clock again: a reader of a pipe may run for days.
        let now = SystemClock.now();
        self.latest = now.saturating_add(BORROWED);
        (time > self.latest).then(|| {
            let (layout, ahead) = (self.layout, span(time.saturating_since(now)));
            let named = self.named(uid);
            format!("{uid} is of {time} by layout {layout}, {ahead} ahead of the clock; {named}")
        })
    }

    /// Names the layouts in which the id has a plausible time.
    fn named(&self, uid: Uid) -> String {
        let plausible = |name: &&str| {
            let layout = read_layout(name).ok()?;
            let time = layout.decode(uid).ok()?.timestamp;
            let may_be = layout != self.layout && time <= self.latest;
            may_be.then(|| format!("--layout {name} makes it {time}"))
        };
        let found: Vec<_> = NAMED.iter().filter_map(plausible).collect();
        match found.is_empty() {
            true => "no layout with a name explains it".into(),
            false => found.join(", "),
        }
    }
}
