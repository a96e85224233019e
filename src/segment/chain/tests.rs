// Chains of one range are intended.
#![allow(clippy::single_range_in_vec_init)]

use super::*;
use crate::clock::Deadline;

/// A chain of these ranges, each with its mark after `prefetch` percent.
fn chain(prefetch: u32, ranges: &[Range<u64>]) -> SegmentChain {
    let chain = SegmentChain::new(prefetch).expect("possible");
    ranges.iter().for_each(|ids| chain.push(ids.clone()).expect("above"));
    chain
}

/// A ticket from the mark on, drawn now and settled later.
fn drawn(chain: &SegmentChain) -> Option<Drawn> {
    Some(chain.draw().expect_err("behind the mark").expect("open"))
}

fn settled(chain: &SegmentChain, missed: Option<Drawn>) -> Option<u64> {
    chain.settle(missed).expect("not forked").id
}

#[test]
fn ranges_that_are_empty_too_high_or_backwards_are_refused() {
    let chain = chain(50, &[10..20]);
    let top = 1 << 63;
    for Range { start, end } in [20..20, top..20, 20..top, top..top + 1] {
        assert_eq!(chain.push(start..end), Err(PushError::NoRange { start, end }));
    }
    for start in [0, 10, 19] {
        assert_eq!(chain.push(start..100), Err(PushError::Backwards { start, end: 20 }));
    }
    assert_eq!(chain.push(20..top - 1), Ok(()));
    assert_eq!(chain.stats().reserved, top - 1 - 10);
}

#[test]
fn the_stats_follow_the_takes() {
    let chain = chain(50, &[]);
    assert_eq!(chain.stats(), ChainStats::default());
    assert!(chain.is_low(), "empty");
    chain.push(10..14).expect("above");
    chain.push(20..25).expect("above");
    let full = ChainStats {
        position: Some(10),
        left: 9,
        segments: 2,
        reserved: 9,
        ..ChainStats::default()
    };
    assert_eq!(chain.stats(), full);
    let mut seen = Vec::new();
    while let Ok(id) = chain.try_take() {
        let stats = chain.stats();
        seen.push((id, chain.is_low(), stats.position, stats.left, stats.segments));
    }
    assert_eq!(
        seen,
        [
            (10, false, Some(11), 8, 2),
            (11, false, Some(12), 7, 2),
            (12, false, Some(13), 6, 2),
            (13, false, Some(20), 5, 1),
            (20, false, Some(21), 4, 1),
            (21, false, Some(22), 3, 1),
            // Two of five are used at the mark. The next take notices it.
            (22, true, Some(23), 2, 1),
            (23, true, Some(24), 1, 1),
            (24, true, None, 0, 0),
        ]
    );
    assert_eq!(chain.try_take(), Err(TakeError::Empty));
    assert_eq!(chain.stats(), ChainStats { reserved: 9, ..ChainStats::default() });
    assert!(matches!(chain.draw(), Err(None)), "shut");
    // A range that does not begin at its lane's first ticket.
    chain.push(30..34).expect("above");
    assert_eq!(
        [(); 3].map(|()| (chain.try_take().ok(), chain.is_low())),
        [(Some(30), false), (Some(31), false), (Some(32), true)]
    );
}

#[test]
fn a_range_whose_mark_is_before_its_first_id_is_low_at_once() {
    assert!(chain(50, &[10..11]).is_low());
    assert!(!chain(50, &[10..12]).is_low());
}

#[test]
fn fills_go_on_from_range_to_range() {
    let chain = chain(30, &[10..17, 20..21, 30..60]);
    let mut ids = [0; 12];
    assert_eq!(chain.try_fill(&mut ids), Ok(12));
    assert_eq!(ids, [10, 11, 12, 13, 14, 15, 16, 20, 30, 31, 32, 33]);
    assert_eq!(chain.try_fill(&mut []), Ok(0));
    let mut rest = [0; 40];
    assert_eq!(chain.try_fill(&mut rest), Ok(26));
    assert!(rest[..26].iter().copied().eq(34..60), "{rest:?}");
    assert_eq!(chain.try_fill(&mut rest), Err(TakeError::Empty));
    chain.close();
    assert_eq!(chain.try_fill(&mut rest), Err(TakeError::Closed));
}

#[test]
fn many_ids_are_claimed_at_once_up_to_the_mark() {
    let chain = chain(50, &[]);
    assert!(matches!(chain.draw(), Err(None)), "no ticket is drawn for nothing");
    chain.push(10..30).expect("above");
    let claims = [5, 100, 1].map(|wanted| chain.view.claim(wanted));
    assert_eq!(claims, [Some(10..15), Some(15..20), None]);
    // The first take past the mark moves it to the end.
    assert_eq!(settled(&chain, None), Some(20));
    assert_eq!([100, 1].map(|wanted| chain.view.claim(wanted)), [Some(21..30), None]);
    let span = chain.queue.lock().ok().and_then(|queue| queue.current).expect("used up");
    assert_eq!(chain.view.draw_of(&span), None, "nothing behind the end");
}

#[test]
fn what_is_discarded_is_counted_and_what_is_pushed_later_is_taken() {
    let chain = chain(50, &[10..20, 20..25]);
    assert_eq!(chain.try_take(), Ok(10));
    assert_eq!(chain.discard(), 9 + 5);
    assert_eq!(chain.discard(), 0);
    assert_eq!(chain.try_take(), Err(TakeError::Empty));
    chain.push(30..32).expect("above");
    assert_eq!((chain.try_take(), chain.stats().discarded), (Ok(30), 14));
    chain.close();
    assert_eq!((chain.try_take(), chain.stats().discarded), (Err(TakeError::Closed), 15));
    chain.push(40..43).expect("above");
    assert_eq!((chain.try_take(), chain.stats().discarded), (Err(TakeError::Closed), 18));
}

#[test]
fn events_come_once_each() {
    let chain = SegmentChain::new(50).expect("possible");
    let settle = || chain.settle(None).expect("not forked");
    assert_eq!(settle().events, [], "nobody has found it dry");
    assert_eq!(chain.append(10..12).expect("above"), [ChainEvent::Begun]);
    assert_eq!(chain.append(20..22).expect("above"), []);
    let ids = |count: u64| (0..count).map(|_| chain.try_take().ok()).collect::<Vec<_>>();
    assert_eq!(ids(1), [Some(10)]);
    let last = settle();
    assert_eq!((last.id, last.events), (Some(11), vec![ChainEvent::UsedUp, ChainEvent::Begun]));
    assert_eq!(ids(1), [Some(20)]);
    let last = settle();
    assert_eq!((last.id, last.events), (Some(21), vec![ChainEvent::UsedUp, ChainEvent::Dried]));
    assert_eq!((settle().id, settle().events), (None, vec![]));
}

#[test]
fn tickets_of_takers_that_sleep_become_ids_of_ranges_alone() {
    let chain = chain(50, &[100..103]);
    assert_eq!(chain.try_take(), Ok(100));
    // Two of the range, and one beyond its end.
    let [own, longest, behind] = [(); 3].map(|()| drawn(&chain));
    let current = || chain.queue.lock().ok().and_then(|queue| queue.current).expect("a range");
    chain.push(200..201).expect("above");
    chain.push(300..304).expect("above");
    assert_eq!((current().lane, current().first), (1, 0), "the lanes count for themselves");
    assert_eq!([(); 2].map(|()| chain.try_take()), [Ok(200), Ok(300)]);
    // Drawn on the lane by a taker that looked at the first range.
    let span = current();
    let mut late = own;
    late.as_mut().expect("drawn").ticket = chain.view.next(&span);
    assert_eq!(chain.view.draw_of(&span), Some(301));
    assert_eq!(settled(&chain, late), Some(301));
    assert_eq!(settled(&chain, own), Some(101));
    assert_eq!(settled(&chain, behind), Some(302), "another one in its place");
    assert_eq!(chain.stats().lapped, 0);
    (1_000..1_020).for_each(|id| chain.push(id..id + 1).expect("above"));
    assert_eq!(chain.try_fill(&mut [0; 30]), Ok(21));
    assert_eq!(settled(&chain, behind), None);
    assert_eq!(chain.stats().lapped, 1, "its range is forgotten");
    assert_eq!((settled(&chain, longest), chain.stats().lapped), (Some(102), 1), "its id is not");
}

#[test]
fn waits_end_when_there_is_something_to_take_or_the_chain_is_closed() {
    let pause = Duration::from_millis(20);
    let chain = chain(50, &[]);
    let deadline = Deadline::after(Some(pause));
    chain.wait(Some(pause));
    assert!(deadline.is_over());
    chain.push(10..11).expect("above");
    chain.wait(None);
    assert_eq!(chain.try_take(), Ok(10));
    std::thread::scope(|scope| {
        scope.spawn(|| chain.wait(None));
        chain.close();
    });
    chain.wait(None);
}
