//! Ids that hardly have the layout by which they are read.

use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};
use uidring_any::table::read_layout;

use crate::args::layout::NAMED;
use crate::text::span;

/// A burst borrows the future: with the smallest layout that has a name, 350 million uids in a row are this far ahead of the clock.
const BORROWED: Duration = Duration::from_secs(86_400);

/// Whether an id may have been made with the layout: a text that is no id mostly reads as one of the first day, or of a
/// time to come.
pub fn may_be_made(uid: Uid, layout: &Layout) -> bool {
    const DAY: Duration = Duration::from_secs(86_400);
    let latest = SystemClock.now().saturating_add(BORROWED);
    let time = layout.decode(uid).map(|fields| fields.timestamp);
    time.is_ok_and(|time| layout.epoch().saturating_add(DAY) < time && time <= latest)
}

/// Tells ids whose time is further in the future than borrowing explains.
pub struct Plausible {
    layout: Layout,
    latest: Timestamp,
}

impl Plausible {
    pub fn new(layout: Layout) -> Self {
        Self { layout, latest: Timestamp::default() }
    }

    /// What to say of an id with such a time; of one that the layout does not have, nothing.
    pub fn problem(&mut self, uid: Uid) -> Option<String> {
        let time = self.layout.decode(uid).ok()?.timestamp;
        if time <= self.latest {
            return None;
        }
        // A reader of a pipe may run for days.
        let now = SystemClock.now();
        self.latest = now.saturating_add(BORROWED);
        (time > self.latest).then(|| {
            let (layout, ahead) = (self.layout, span(time.saturating_since(now)));
            let named = self.named(uid);
            format!("{uid} is of {time} by layout {layout}, {ahead} ahead of the clock; {named}")
        })
    }

    /// The named layouts by which the id has a time that may be.
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
