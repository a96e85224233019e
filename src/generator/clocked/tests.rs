//! Tests that need private methods.

use std::thread;
use std::time::Duration;

use super::ClockedUidGenerator;
use crate::clock::{Deadline, ManualClock};
use crate::layout::{Bits, Layout, Tick};
use crate::ring::Drawn;
use crate::timestamp::Timestamp;
use crate::waiting::Waiting;

/// Two takers may draw at the end of a tick at once, while a third opens the next.
#[test]
fn what_is_drawn_behind_an_end_is_a_uid_of_the_open_tick_or_none() {
    let bits = Bits { time: 40, worker: 6, sequence: 10 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let clock = ManualClock::new(Timestamp::from_millis(5_000));
    let generator = ClockedUidGenerator::builder()
        .layout(layout)
        .worker_id(2)
        .clock(clock.clone())
        .build()
        .expect("builds");
    let number = |tick: u64, offset: u64| (tick << 16) + (2 << 10) + offset;
    let last = number(5, 1_023);
    let resolve = |number| generator.resolve_overdraw(Drawn { number, last });
    assert_eq!(generator.try_next_uid().map(|uid| uid.get()), Ok(number(5, 0)));
    assert_eq!(generator.draw(), Some(number(5, 1)));
    assert_eq!(resolve(last + 1), None, "the next worker's");
    assert_eq!(resolve(last), Some(last));
    assert_eq!(generator.take_at_once(), Err(None), "nobody draws behind the end any more");
    assert_eq!(resolve(number(6, 0)), None, "that tick is not open");

    clock.set(Timestamp::from_millis(6_000));
    assert_eq!(generator.try_next_uid().map(|uid| uid.get()), Ok(number(6, 0)));
    assert_eq!(resolve(last), Some(last), "though its tick is over");
    for other in [last + 1, number(6, 0) - 1, number(6, 1_024), number(7, 0), number(5, 7)] {
        assert_eq!(resolve(other), None, "{other:#x}");
    }
    for drawn in [number(6, 0), number(6, 1), number(6, 500), number(6, 1_023)] {
        assert_eq!(resolve(drawn), Some(drawn), "{drawn:#x}");
    }
    generator.close();
    assert_eq!(resolve(number(6, 500)), None, "closed");
}

/// Takers in flight may pass the end of a tick, but must not reach the next one.
#[test]
fn a_take_is_an_addition_where_ticks_are_far_apart() {
    for (worker, is_far) in [(5, false), (6, true)] {
        let bits = Bits { time: 40, worker, sequence: 10 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let generator = ClockedUidGenerator::builder()
            .layout(layout)
            .worker_id(1)
            .clock(ManualClock::new(Timestamp::from_millis(5_000)))
            .build()
            .expect("builds");
        assert_eq!(generator.take_at_once(), Err(None), "no tick is open");
        let first = generator.try_next_uid().expect("room");
        let second = generator.take_at_once();
        assert_eq!(second.is_ok(), is_far, "{bits:?}");
        let third = generator.try_next_uid().expect("room");
        assert_eq!(third.get() - first.get(), if is_far { 2 } else { 1 });
        while generator.try_next_uid().is_ok() {}
        assert_eq!(generator.take_at_once(), Err(None), "the tick is used up");
    }
}

#[test]
fn a_close_ends_a_nap_however_long() {
    const LONG: Duration = Duration::from_secs(60);
    let generator = ClockedUidGenerator::snowflake().worker_id(1).build().expect("builds");
    let end = Deadline::after(Some(LONG));
    thread::scope(|scope| {
        let napping = scope.spawn(|| generator.nap(LONG));
        // Most likely asleep by now. If not, it finds the generator closed.
        thread::sleep(Duration::from_millis(20));
        generator.close();
        napping.join().expect("no panic");
    });
    assert_ne!(end.remaining(), Some(Duration::ZERO), "it was woken");
}
