//! How long a lease lasts for its holder, to the nanosecond of virtual time.

use crate::error::StoreError;
use crate::error::StoreErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::backend::{LeaseTerms, RenewError};
use super::renewals::{LeaseAction, LeaseStart, RenewRequest, RenewalMachine};
use crate::clock::monotonic::ManualMonotonic;
use crate::layout::Layout;
use crate::sync::ForkToken;

const MILLI: u64 = 1_000_000;

fn begin(time: &ManualMonotonic) -> RenewalMachine {
    let terms = LeaseTerms {
        lasts: Some(Duration::from_millis(300)),
        margin: Duration::from_millis(30),
        renew_every: Duration::from_millis(100),
        ..LeaseTerms::default()
    };
    let start = LeaseStart { present: 10, first: 10, max_ahead: 0 };
    let (time, life) = (Arc::new(time.clone()), ForkToken::current());
    let mut renewals = RenewalMachine::new(&Layout::SNOWFLAKE, terms, start, time, 1, life);
    let request = renewals.request();
    renewals.granted(request);
    renewals
}

fn failed() -> Result<(), RenewError> {
    Err(RenewError::Failed(
        StoreError::new(StoreErrorKind::Unreachable, "the store is away").into(),
    ))
}

fn renew(renewals: &mut RenewalMachine) -> RenewRequest {
    match renewals.next_action() {
        LeaseAction::Renew(request) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_lasts_from_the_start_of_its_last_renewal_less_the_margin() {
    let time = ManualMonotonic::new();
    let mut renewals = begin(&time);
    time.advance(100 * MILLI);
    let request = renew(&mut renewals);
    time.advance(50 * MILLI);
    renewals.answered(request, Ok(()));
    time.advance(220 * MILLI - 1);
    assert!(renewals.is_live());
    time.advance(1);
    assert!(!renewals.is_live(), "270 ms after the renewal began");
}

#[test]
fn a_store_that_is_away_for_less_than_the_lease_is_not_noticed() {
    let time = ManualMonotonic::new();
    let mut renewals = begin(&time);
    time.advance(100 * MILLI);
    for _ in 0..3 {
        let request = renew(&mut renewals);
        renewals.answered(request, failed());
        let LeaseAction::Wait(Some(pause)) = renewals.next_action() else { panic!("not at once") };
        time.advance(pause.as_nanos() as u64);
    }
    let request = renew(&mut renewals);
    renewals.answered(request, Ok(()));
    time.advance(269 * MILLI);
    assert!(renewals.is_live(), "from that renewal on");
}

#[test]
fn a_lease_that_is_over_is_over_whatever_the_store_says() {
    let time = ManualMonotonic::new();
    let mut renewals = begin(&time);
    time.advance(100 * MILLI);
    let request = renew(&mut renewals);
    time.advance(170 * MILLI);
    // A taker has seen the loss.
    assert!(renewals.shared().is_lost());
    renewals.answered(request, Ok(()));
    assert!(!renewals.is_live());
    assert!(matches!(renewals.next_action(), LeaseAction::Wait(None)), "nothing is left to do");
}
