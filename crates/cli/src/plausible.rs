//! Ids that hardly have the layout by which they are read.

use std::time::Duration;

use clap::ValueEnum;
use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};

use crate::args::layout::Preset;
use crate::text::span;

/// A burst borrows the future: with the smallest preset 350 million uids in a row are this far ahead of the clock.
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
            let presets = self.presets(uid);
            format!("{uid} is of {time} by layout {layout}, {ahead} ahead of the clock; {presets}")
        })
    }

    /// The presets by which the id has a time that may be.
    fn presets(&self, uid: Uid) -> String {
        let plausible = |preset: &Preset| {
            let layout = preset.layout();
            let time = layout.decode(uid).ok()?.timestamp;
            let name = preset.to_possible_value()?;
            // That of `leaf` is named by `snowflake`.
            let may_be = *preset != Preset::Leaf && layout != self.layout && time <= self.latest;
            may_be.then(|| format!("--preset {} makes it {time}", name.get_name()))
        };
        let found: Vec<_> = Preset::value_variants().iter().filter_map(plausible).collect();
        match found.is_empty() {
            true => "no preset explains it, perhaps another --layout, --tick or --epoch".into(),
            false => found.join(", "),
        }
    }
}
