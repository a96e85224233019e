//! What holds for every layout, uid and text, tested with random ones.

use std::fmt::Write;

use proptest::prelude::*;
use uidring::{Bits, Fields, Layout, Tick, Timestamp, Uid};

/// From 0000-01-01T00:00:00Z to the last millisecond of 9999: the years of RFC 3339.
const RFC_3339: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn fields_come_back((layout, tick, worker_id, sequence) in layout_and_fields()) {
        let uid = layout.compose(Fields { tick, worker_id, sequence }).expect("in range");
        prop_assert!(uid <= layout.max_uid());
        prop_assert!(i64::from(uid) >= 0);
        let fields = layout.decode(uid).expect("its own uid");
        prop_assert_eq!(fields.tick, tick);
        prop_assert_eq!(fields.worker_id, worker_id);
        prop_assert_eq!(fields.sequence, sequence);
        prop_assert_eq!(fields.timestamp, layout.time_of(tick));
    }

    #[test]
    fn every_number_is_the_uid_of_its_fields((layout, number) in layout_and_number()) {
        let fields = layout.decode(number).expect("not above the maximum");
        let again = layout.compose(Fields { tick: fields.tick, worker_id: fields.worker_id, sequence: fields.sequence });
        prop_assert_eq!(again.expect("they came from a uid"), number);
    }

    #[test]
    fn the_order_of_ticks_is_the_order_of_uids(
        (layout, tick, worker_id, sequence) in layout_and_fields(),
    ) {
        let uid = layout.compose(Fields { tick, worker_id, sequence }).expect("in range");
        if let Some(before) = tick.checked_sub(1) {
            let last = layout.compose(Fields { tick: before, worker_id: layout.max_worker_id(), sequence: layout.max_sequence() });
            prop_assert!(last.expect("in range") < uid);
        }
    }

    /// Any value above a field's maximum is an error, never a uid with another field.
    #[test]
    fn fields_out_of_range_are_errors(
        (layout, tick, worker_id, sequence) in layout_and_fields(),
        excess in prop_oneof![Just(1), 1..=u64::MAX],
    ) {
        let above = |max: u64| max.saturating_add(excess);
        let fields = Fields { tick, worker_id, sequence };
        let above_tick = Fields { tick: above(layout.max_tick()), ..fields };
        let above_worker = Fields { worker_id: above(layout.max_worker_id()), ..fields };
        let above_sequence = Fields { sequence: above(layout.max_sequence()), ..fields };
        for fields in [above_tick, above_worker, above_sequence] {
            prop_assert!(layout.compose(fields).is_err());
        }
        prop_assert!(layout.check_worker_id(above(layout.max_worker_id())).is_err());
        if let Some(foreign) = Uid::new(above(u64::from(layout.max_uid()))) {
            prop_assert!(layout.decode(foreign).is_err());
        }
    }

    #[test]
    fn widths_are_possible_or_refused(bits in any_bits(), tick in any_tick(), epoch in any_time()) {
        let widths = [bits.time, bits.worker, bits.sequence].map(u32::from);
        let possible = widths.iter().all(|&width| width > 0) && widths.iter().sum::<u32>() <= 63;
        prop_assert_eq!(Layout::new(bits, tick, epoch).is_ok(), possible);
    }

    #[test]
    fn numbers_are_uids_up_to_63_bits(number in any::<u64>(), signed in any::<i64>()) {
        prop_assert_eq!(Uid::new(number).is_some(), i64::try_from(number).is_ok());
        prop_assert_eq!(Uid::try_from(number).is_ok(), i64::try_from(number).is_ok());
        prop_assert_eq!(Uid::try_from(signed).map(i64::from).ok(), (signed >= 0).then_some(signed));
    }

    #[test]
    fn every_layout_reads_back(layout in any_layout()) {
        let text = layout.to_string();
        prop_assert_eq!(text.parse::<Layout>().expect("its own text"), layout, "{}", text);
    }

    /// A layout may end in any year, which its errors must be able to display.
    #[test]
    fn every_time_can_be_shown_and_reads_back(time in any_time()) {
        let text = time.to_string();
        prop_assert!(text.is_ascii() && text.ends_with('Z') && text.contains('T'), "{}", text);
        prop_assert_eq!(text.parse::<Timestamp>().expect("its own text"), time);
        let date = time.date().to_string();
        prop_assert!(!date.contains('T') && text.starts_with(&date), "{} of {}", date, text);
        // The first representable day begins before the first time.
        if time.as_millis() > i64::MIN + 86_400_000 {
            prop_assert!(date.parse::<Timestamp>().expect("a date") <= time);
        }
    }

    #[test]
    fn uids_of_a_range_of_time_are_in_its_range_of_uids(
        (layout, _, worker_id, sequence) in layout_and_fields(),
        mut places in [any::<u64>(), any::<u64>(), any::<u64>()],
    ) {
        places.sort_unstable();
        let [from, time, to] = places.map(|place| within_life(&layout, place));
        let uids = layout.uid_range(from..=to).expect("all of it is within the life");
        let tick = layout.tick_at(time).expect("within the life");
        let uid = layout.compose(Fields { tick, worker_id, sequence }).expect("in range");
        prop_assert!(uids.contains(&uid), "{uid} of {time} in {uids:?}");
        // No wider than whole ticks: the bounds are in the ticks of the range's ends.
        let tick_of = |uid| layout.decode(uid).map(|fields| fields.tick).ok();
        prop_assert_eq!(tick_of(*uids.start()), layout.tick_at(from).ok());
        prop_assert_eq!(tick_of(*uids.end()), layout.tick_at(to).ok());
    }

    /// Ranges that begin before the epoch, end after the layout's life, or are outside of it.
    #[test]
    fn ranges_of_any_times_are_cut_to_the_life(
        (layout, tick, worker_id, sequence) in layout_and_fields(),
        from in any_time(),
        to in any_time(),
    ) {
        let (from, to) = (from.min(to), from.max(to));
        let uid = layout.compose(Fields { tick, worker_id, sequence }).expect("in range");
        let time = layout.time_of(tick);
        let in_time = (from..=to).contains(&time) && is_exact(&layout, time);
        match layout.uid_range(from..=to) {
            Some(uids) => {
                prop_assert!(uids.start() <= uids.end());
                prop_assert!(!in_time || uids.contains(&uid), "{uid} of {time} in {uids:?}");
            }
            None => prop_assert!(to < layout.epoch() || layout.last_instant() < from),
        }
    }

    #[test]
    fn an_instant_lies_in_its_tick(layout in any_layout(), place in any::<u64>()) {
        let time = within_life(&layout, place);
        let tick = layout.tick_at(time).expect("within the life");
        let into = time.as_millis() - layout.time_of(tick).as_millis();
        prop_assert!((0..layout.tick().millis()).contains(&into), "{into} ms into tick {tick}");
    }
}

/// The ends of the range, which random numbers never hit. A calendar library may stop short.
#[test]
fn the_first_and_the_last_times_of_rfc_3339_read_back() {
    for millis in [*RFC_3339.start(), -1, 0, *RFC_3339.end()] {
        let time = Timestamp::from_millis(millis);
        let text = time.to_string();
        assert_eq!(text.parse::<Timestamp>().ok(), Some(time), "{text}");
    }
}

/// The calendar library's first and last second, and the times that map to the last one in later cycles of 400 years.
/// Every millisecond around them can be displayed.
#[test]
fn the_ends_of_the_calendar_can_be_shown() {
    const CYCLE: i64 = 146_097 * 86_400_000;
    let last = "9999-12-30T22:00:00Z".parse().map(Timestamp::as_millis).expect("a time");
    // 25 cycles after the year -9999.
    let first = "0001-01-02T01:59:59Z".parse().map(Timestamp::as_millis).expect("a time");
    let seconds = [first - 25 * CYCLE, first - 26 * CYCLE, last, last + CYCLE, last + 100 * CYCLE];
    for millis in seconds.into_iter().flat_map(|second| second - 2_000..second + 2_000) {
        let mut text = String::new();
        let shown = write!(text, "{}", Timestamp::from_millis(millis));
        assert!(shown.is_ok() && text.ends_with('Z'), "{millis} ms: {text}");
    }
}

#[cfg(feature = "serde")]
proptest! {
    #[test]
    fn decoded_uids_read_back((layout, uid) in layout_and_number()) {
        let decoded = layout.decode(uid).expect("of this layout");
        let json = serde_json::to_string(&decoded).expect("an object");
        prop_assert_eq!(serde_json::from_str::<uidring::Decoded>(&json).expect("reads"), decoded);
    }
}

fn any_tick() -> impl Strategy<Value = Tick> {
    prop_oneof![Just(Tick::Second), Just(Tick::Millisecond)]
}

/// Any time, more often one that a person would write.
fn any_time() -> impl Strategy<Value = Timestamp> {
    let millis = prop_oneof![
        any::<i64>(),
        RFC_3339,
        Just(i64::MIN),
        Just(i64::MAX),
        // Where years get a fifth digit, and where the calendar library ends.
        253_402_200_000_000_i64..253_402_400_000_000,
        -377_705_200_000_000_i64..-377_705_000_000_000,
    ];
    millis.prop_map(Timestamp::from_millis)
}

/// Includes impossible ones.
fn any_bits() -> impl Strategy<Value = Bits> {
    let small = (0..=63_u8, 0..=63_u8, 0..=63_u8);
    prop_oneof![any::<(u8, u8, u8)>(), small].prop_map(|(time, worker, sequence)| Bits {
        time,
        worker,
        sequence,
    })
}

/// All possible layouts, half of them with all 63 bits.
fn any_layout() -> impl Strategy<Value = Layout> {
    let total = prop_oneof![3..=63_u8, Just(63)];
    let bits = total
        .prop_flat_map(|total| (Just(total), 1..=total - 2))
        .prop_flat_map(|(total, time)| (Just(total), Just(time), 1..total - time))
        .prop_map(|(total, time, worker)| Bits { time, worker, sequence: total - time - worker });
    (bits, any_tick(), any_time())
        .prop_map(|(bits, tick, epoch)| Layout::new(bits, tick, epoch).expect("at most 63 bits"))
}

/// A number from 0 to `max`, more often the ends and their neighbours.
fn up_to(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..=max, 1 => Just(0), 1 => Just(max), 1 => Just(max - 1)]
}

fn layout_and_fields() -> impl Strategy<Value = (Layout, u64, u64, u64)> {
    any_layout().prop_flat_map(|layout| {
        let maxima = [layout.max_tick(), layout.max_worker_id(), layout.max_sequence()];
        let [tick, worker_id, sequence] = maxima.map(up_to);
        (Just(layout), tick, worker_id, sequence)
    })
}

fn layout_and_number() -> impl Strategy<Value = (Layout, Uid)> {
    any_layout().prop_flat_map(|layout| {
        let number = up_to(u64::from(layout.max_uid()));
        (Just(layout), number.prop_map(|number| Uid::new(number).expect("63 bits")))
    })
}

/// Times far from the epoch or 1970 are cut to 292 million years: one tick stands for all later ones.
fn is_exact(layout: &Layout, time: Timestamp) -> bool {
    let since_epoch = time.as_millis().checked_sub(layout.epoch().as_millis());
    since_epoch.is_some() && time.as_millis() < i64::MAX
}

/// An instant in the layout's life, later for a greater `place`. It is exact.
fn within_life(layout: &Layout, place: u64) -> Timestamp {
    let length = layout.remaining_life(layout.epoch()).as_millis();
    let length = length.min(u128::from(i64::MAX.cast_unsigned()));
    let offset = length * u128::from(place) / u128::from(u64::MAX);
    let millis = i128::from(layout.epoch().as_millis()) + offset.cast_signed();
    Timestamp::from_millis(i64::try_from(millis).expect("not after the last instant"))
}
