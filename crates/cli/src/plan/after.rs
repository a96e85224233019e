//! Finds from which day on a layout's ids are above all those of another.

use std::iter::successors;
use std::time::Duration;

use uidring::{Bits, Layout, Timestamp};

const DAY_MILLIS: i64 = 86_400_000;
const DAY: Duration = Duration::from_millis(DAY_MILLIS.cast_unsigned());

/// The old generators stop during the day, and may be a day ahead of the clock then.
const MARGIN: Duration = DAY.saturating_mul(2);

/// How many days a computed epoch leaves for the switch.
const TO_SWITCH: u32 = 90;

/// How many days to look ahead.
const DAYS: usize = 365_000;

/// How a layout can follow another: on which days to switch, so that all new uids are above all old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession {
    /// The layout with an earlier epoch that has to be used instead, if any.
    pub instead: Option<Layout>,
    pub first: Timestamp,
    /// The day after the last one; `None` if a switch stays possible until the new layout ends.
    pub end: Option<Timestamp>,
}

/// Compares what the new layout issues on each day from tomorrow on with all that the old one can have issued by the
/// end of that day. Returns `None` if the new uids are never above, whatever the epoch.
pub fn succession(old: &Layout, new: &Layout, now: Timestamp) -> Option<Succession> {
    let tomorrow = day_of(now).saturating_add(DAY);
    if let Some((first, end)) = days_above(old, new, tomorrow) {
        return Some(Succession { instead: None, first, end });
    }
    let other = with_epoch(old, new, tomorrow)?;
    let (first, end) = days_above(old, &other, tomorrow)?;
    Some(Succession { instead: Some(other), first, end })
}

/// Returns the first day on which the new layout's uids are above, and the end of such days.
fn days_above(
    old: &Layout,
    new: &Layout,
    from: Timestamp,
) -> Option<(Timestamp, Option<Timestamp>)> {
    let days = successors(Some(from), |day| Some(day.saturating_add(DAY))).take(DAYS);
    let mut rest = days.skip_while(|day| !is_above(old, new, *day));
    let first = rest.next()?;
    let end = rest.find(|day| !is_above(old, new, *day));
    Some((first, end.filter(|end| *end < new.last_instant())))
}

/// Whether the first uid of the new layout on this day is above all old ones.
fn is_above(old: &Layout, new: &Layout, day: Timestamp) -> bool {
    new.uid_range(day..=day).is_some_and(|uids| u64::from(*uids.start()) > greatest(old, day))
}

/// Returns the greatest uid that the old layout can have issued if its generators stop on this day.
fn greatest(old: &Layout, day: Timestamp) -> u64 {
    let uids = old.uid_range(old.epoch()..=day.saturating_add(MARGIN));
    uids.map_or(0, |uids| u64::from(*uids.end()))
}

/// Returns the new layout with the latest epoch at which a switch can be on the first day or up to [`TO_SWITCH`] days
/// later. The epoch starts a day.
fn with_epoch(old: &Layout, new: &Layout, first: Timestamp) -> Option<Layout> {
    let Bits { worker, sequence, .. } = new.bits();
    let last = first.saturating_add(DAY * TO_SWITCH);
    let ticks = (greatest(old, last) >> (worker + sequence)) + 1;
    let offset = i64::try_from(ticks).ok()?.checked_mul(new.tick().millis())?;
    let epoch = day_of(Timestamp::from_millis(first.as_millis().checked_sub(offset)?));
    Layout::new(new.bits(), new.tick(), epoch).ok()
}

fn day_of(time: Timestamp) -> Timestamp {
    Timestamp::from_millis(time.as_millis().div_euclid(DAY_MILLIS).saturating_mul(DAY_MILLIS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uidring::{Fields, Tick};

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn layout(time: u8, worker: u8, sequence: u8, tick: Tick, epoch: &str) -> Layout {
        Layout::new(Bits { time, worker, sequence }, tick, at(epoch)).expect("possible")
    }

    /// Returns the smallest new uid of a day, and the greatest old one a day after its end.
    fn apart(old: &Layout, new: &Layout, day: Timestamp) -> (u64, u64) {
        let tick = new.tick_at(day).expect("of its life");
        let smallest = new.compose(Fields { tick, worker_id: 0, sequence: 0 }).expect("fits");
        let last = old.tick_at(day.saturating_add(DAY + DAY)).unwrap_or(old.max_tick());
        let (worker_id, sequence) = (old.max_worker_id(), old.max_sequence());
        let greatest = old.compose(Fields { tick: last, worker_id, sequence }).expect("fits");
        (u64::from(smallest), u64::from(greatest))
    }

    #[test]
    fn a_longer_life_needs_an_earlier_epoch() {
        let old = Layout::UID_GENERATOR;
        for (now, tick, bits) in [
            ("2026-11-28T12:00:00Z", Tick::Second, (31, 10, 22)),
            ("2030-01-01", Tick::Second, (31, 10, 22)),
            ("2034-01-01", Tick::Millisecond, (41, 10, 12)),
        ] {
            let wanted = layout(bits.0, bits.1, bits.2, tick, "2026-01-01");
            let days = succession(&old, &wanted, at(now)).expect("possible");
            let Succession { instead: Some(layout), .. } = days else {
                panic!("{now}: the epoch of 2026 is too late")
            };
            assert_eq!(days.first, day_of(at(now)).saturating_add(DAY));
            let last = days.first.saturating_add(DAY * TO_SWITCH);
            assert!(days.end.is_none_or(|end| end > last), "{now}: {days:?}");
            for day in [days.first, last] {
                let (smallest, greatest) = apart(&old, &layout, day);
                assert!(smallest > greatest, "{now}: {layout}");
            }
            let same = Succession { instead: None, ..days };
            assert_eq!(succession(&old, &layout, at(now)), Some(same));
        }
    }

    #[test]
    fn the_days_of_the_switch_are_the_first_and_the_last_possible() {
        let now = at("2026-11-28T12:00:00Z");
        // The old one grows eight times faster, and catches up.
        let new = layout(31, 10, 22, Tick::Second, "2015-01-01");
        let old = Layout::UID_GENERATOR;
        let Some(Succession { instead: None, first, end: Some(end) }) = succession(&old, &new, now)
        else {
            panic!("it begins above")
        };
        assert_eq!(first, at("2026-11-29"));
        let (smallest, greatest) = apart(&old, &new, end);
        assert!(smallest <= greatest);
        let (smallest, greatest) =
            apart(&old, &new, day_of(Timestamp::from_millis(end.as_millis() - 1)));
        assert!(smallest > greatest);
        // The new one grows faster, and passes the old one.
        let Some(Succession { instead: None, first, end: None }) = succession(&new, &old, now)
        else {
            panic!("it passes")
        };
        assert!(first > at("2027-06-01"), "{first}");
        let (smallest, greatest) = apart(&new, &old, first);
        assert!(smallest > greatest);
    }

    #[test]
    fn fewer_bits_are_never_above() {
        let now = at("2026-11-28");
        assert_eq!(succession(&Layout::UID_GENERATOR, &Layout::JAVASCRIPT_SAFE, now), None);
    }
}
