//! Models of a padder and of takers that help it, for the model checker: run them with `scripts/loom`.

use loom::thread;

use super::*;
use crate::error::TakeError;
use crate::padding::NextRun;
use crate::ring::RingOptions;
use crate::sync::{Event, become_forked_child};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// A ring of two runs of one number each. Its source gives the numbers from 1 to `end`.
fn padded(end: u64) -> Arc<PaddedRing> {
    let (producer, _) = RingBuffer::new(RingOptions::new(1).run_bits(0)).expect("possible");
    let mut next = 0;
    let source = move || {
        next += 1;
        (next <= end).then_some(next)
    };
    Arc::new(PaddedRing::new(producer, source, None))
}

/// Does what the padder's thread does, but without its sleep. Ends when there is no more to pad.
fn service(padded: &PaddedRing) {
    while let Ok(due) = padded.service(PadderIdle::Sleep) {
        if due != Some(Duration::ZERO) && !padded.wants_service() {
            thread::yield_now();
        }
    }
}

/// A helper and the padder pad the same ring: each run is put once, in order, and takers learn of the source's
/// end, whichever of the two meets it.
#[test]
fn models_a_helper_against_the_padder() {
    check(|| {
        let padded = padded(2);
        let padder = {
            let padded = Arc::clone(&padded);
            thread::spawn(move || service(&padded))
        };
        let mut taken = Vec::new();
        loop {
            match padded.ring().try_take() {
                Ok(number) => taken.push(number),
                Err(TakeError::Empty) => {
                    if !padded.help() {
                        thread::yield_now();
                    }
                }
                Err(error) => {
                    assert_eq!(error, TakeError::TimeExhausted);
                    break;
                }
            }
        }
        padder.join().expect("no panic");
        assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
        assert!(taken.iter().all(|number| (1..=2).contains(number)), "{taken:?}");
        assert_eq!(padded.ring().stats().taken, taken.len() as u64);
    });
}

/// A padder that finds the state taken by a helper is called when the state is back. It sleeps at its event
/// until then; without the call, the model checker would report a deadlock.
#[test]
fn models_a_padder_that_came_in_vain_is_called() {
    check(|| {
        let fork_token = crate::sync::ForkToken::current();
        let demand = Arc::new(Event::own(fork_token));
        let options = RingOptions::new(1).run_bits(0).demand(Arc::clone(&demand));
        let (producer, _) = RingBuffer::new(options).expect("possible");
        let source = || -> Option<u64> { None };
        let padded = Arc::new(PaddedRing::new(producer, source, None));
        let padder = {
            let padded = Arc::clone(&padded);
            thread::spawn(move || {
                // The source has ended. The padder must learn of it, whoever asked the source.
                while padded.service(PadderIdle::Sleep).is_ok() {
                    demand.wait(None, || padded.wants_service());
                }
            })
        };
        // In this thread, so that two preemptions are enough for the padder to come meanwhile.
        padded.help();
        padder.join().expect("no panic");
        assert!(padded.ring().why_closed().is_some());
    });
}

/// A close does not wait for a helper, and returns a number above all that were taken.
#[test]
fn models_a_close_against_a_helper() {
    check(|| {
        let padded = padded(9);
        let helper = {
            let padded = Arc::clone(&padded);
            thread::spawn(move || {
                padded.help();
                padded.ring().try_take().ok()
            })
        };
        let issued = padded.close();
        let taken = helper.join().expect("no panic");
        assert!(taken.is_none_or(|taken| Some(taken) < issued), "{taken:?} of {issued:?}");
        assert!(padded.ring().try_take().is_err());
    });
}

/// The source forks. The child puts nothing, takes nothing, and waits for nobody, whatever the padder is doing.
#[test]
fn models_a_fork_in_the_source() {
    struct Forking {
        next: u64,
        in_begin: bool,
    }
    impl RunSource for Forking {
        fn oldest_fresh(&mut self) -> Option<u64> {
            if self.in_begin && self.next > 0 {
                become_forked_child();
            }
            Some(0)
        }
        fn next_run(&mut self) -> NextRun {
            if !self.in_begin && self.next == 1 {
                become_forked_child();
            }
            self.next += 1;
            NextRun::Run(self.next)
        }
    }
    for in_begin in [true, false] {
        check(move || {
            let (producer, _) = RingBuffer::new(RingOptions::new(1).run_bits(0)).expect("possible");
            let padded = Arc::new(PaddedRing::new(producer, Forking { next: 0, in_begin }, None));
            let other = {
                let padded = Arc::clone(&padded);
                thread::spawn(move || {
                    if padded.with_state(By::Helper, |_| ()).is_ok() {
                        let _ = padded.wants_service();
                    }
                })
            };
            for _ in 0..2 {
                padded.help();
            }
            let is_child = padded.ring().is_forked();
            let taken = padded.ring().try_take();
            assert!(!is_child || taken == Err(TakeError::Forked), "{taken:?}");
            if is_child {
                assert!(!padded.help() || padded.ring().why_closed().is_some());
                assert!(padded.service(PadderIdle::Sleep).is_err() && padded.close().is_none());
            }
            other.join().expect("no panic");
        });
    }
}
