//! Rounds in which nothing is ready at first.

use std::time::Instant;

use uidring::TakeError;

use super::*;

/// Both threads are rejected until then, as if the padder waited for a core.
fn race_from(from: Instant) -> Result<(f64, Tally), Failure> {
    let contestant = Contestant::new("late", || {
        let mut last = 0;
        move || {
            last += 1;
            if Instant::now() < from { Err(TakeError::Empty) } else { Ok(last) }
        }
    });
    let crew = Crew { threads: 2, cores: Vec::new() };
    race(&contestant, &crew, Duration::from_micros(100))
}

#[test]
fn a_round_with_only_rejects_goes_on_and_counts_them() {
    let late = Duration::from_millis(50);
    let (ns, tally) = race_from(Instant::now() + late).ok().expect("ids in the end");
    assert!(tally.ids > 0 && tally.rejects > 0, "{} and {}", tally.ids, tally.rejects);
    assert_eq!(tally.calls, tally.ids + tally.rejects);
    assert!(ns > 0.0);
}
