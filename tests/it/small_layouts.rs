//! Small layouts, exhaustively: every number, every field that is one too great, every range of ticks.

use uidring::{Bits, Fields, Layout, Tick, Timestamp, Uid};

/// Returns all layouts of up to this many bits, with both kinds of ticks.
fn layouts(total: u8) -> impl Iterator<Item = Layout> {
    let widths = (1..total).flat_map(move |time| {
        (1..total - time).flat_map(move |worker| {
            (1..=total - time - worker).map(move |sequence| Bits { time, worker, sequence })
        })
    });
    let epoch = Timestamp::from_millis(1_767_225_600_000);
    widths.flat_map(move |bits| {
        [Tick::Second, Tick::Millisecond]
            .map(|tick| Layout::new(bits, tick, epoch).expect("few bits"))
    })
}

fn uid(number: u64) -> Uid {
    Uid::new(number).expect("63 bits")
}

/// Returns the numbers of ticks, worker ids and sequence numbers, by multiplication.
fn counts(layout: &Layout) -> [u64; 3] {
    let Bits { time, worker, sequence } = layout.bits();
    [time, worker, sequence].map(|width| (0..width).fold(1, |count, _| count * 2))
}

#[test]
fn every_number_is_the_uid_of_the_fields_that_count_up_to_it() {
    let mut seen = 0_u64;
    for layout in layouts(12) {
        let [ticks, workers, sequences] = counts(&layout);
        let mut number = 0;
        // In the order of tick, worker and sequence, the uids count from 0 without a gap.
        for tick in 0..ticks {
            for worker_id in 0..workers {
                for sequence in 0..sequences {
                    let fields = Fields { tick, worker_id, sequence };
                    assert_eq!(layout.compose(fields).expect("in range"), uid(number), "{layout}");
                    let decoded = layout.decode(uid(number)).expect("in range");
                    let back = [decoded.tick, decoded.worker_id, decoded.sequence];
                    assert_eq!(back, [tick, worker_id, sequence], "{number} of {layout}");
                    number += 1;
                }
            }
        }
        assert_eq!(layout.max_uid(), uid(number - 1), "{layout}");
        seen += number;
    }
    assert_eq!(seen, 2 * 376_824, "layouts of 3 to 12 bits, each twice");
}

#[test]
fn a_later_uid_of_a_worker_has_a_later_tick_or_sequence() {
    for layout in layouts(12) {
        let [_, workers, _] = counts(&layout);
        let mut last = vec![None; usize::try_from(workers).expect("few")];
        for number in 0..=layout.max_uid().get() {
            let decoded = layout.decode(uid(number)).expect("in range");
            let last = &mut last[usize::try_from(decoded.worker_id).expect("few")];
            let place = Some((decoded.tick, decoded.sequence));
            assert!(*last < place, "{number} of {layout}");
            assert_eq!(decoded.timestamp, layout.time_of(decoded.tick));
            *last = place;
        }
    }
}

#[test]
fn one_too_many_is_refused_in_every_field() {
    for layout in layouts(12) {
        let [ticks, workers, sequences] = counts(&layout);
        let too_many = |count: u64| [count, count + 1, 2 * count, 1 << 32, 1 << 63, u64::MAX];
        let in_range = Fields { tick: ticks - 1, worker_id: workers - 1, sequence: sequences - 1 };
        assert!(layout.compose(in_range).is_ok());
        for tick in too_many(ticks) {
            assert!(layout.compose(Fields { tick, ..in_range }).is_err(), "{tick} in {layout}");
        }
        for worker_id in too_many(workers) {
            let refused = layout.compose(Fields { worker_id, ..in_range }).is_err();
            assert!(refused && layout.check_worker_id(worker_id).is_err(), "{layout}");
        }
        for sequence in too_many(sequences) {
            assert!(layout.compose(Fields { sequence, ..in_range }).is_err(), "{layout}");
        }
        let uids = ticks * workers * sequences;
        for number in (uids..2 * uids).chain([1 << 62, Uid::MAX.get()]) {
            assert!(layout.decode(uid(number)).is_err(), "{number} in {layout}");
        }
    }
}

#[test]
fn a_range_of_ticks_has_their_uids_and_no_others() {
    for layout in layouts(8) {
        let [ticks, workers, sequences] = counts(&layout);
        for from in 0..ticks {
            for to in from..ticks {
                let times = layout.time_of(from)..=layout.time_of(to);
                let uids = layout.uid_range(times).expect("within the life");
                let first = from * workers * sequences;
                let end = (to + 1) * workers * sequences;
                assert_eq!(uids, uid(first)..=uid(end - 1), "{from} to {to} of {layout}");
            }
        }
    }
}

#[test]
fn all_widths_are_possible_or_refused() {
    for time in 0..=64 {
        for worker in 0..=64 {
            for sequence in 0..=64 {
                let bits = Bits { time, worker, sequence };
                let total = u32::from(time) + u32::from(worker) + u32::from(sequence);
                let is_possible = time > 0 && worker > 0 && sequence > 0 && total <= 63;
                let layout = Layout::new(bits, Tick::Second, Timestamp::default());
                assert_eq!(layout.is_ok(), is_possible, "{bits}");
                assert_eq!(bits.to_string().parse::<Bits>().expect("its own text"), bits);
            }
        }
    }
}
