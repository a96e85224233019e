//! Errors as a `main` that returns them prints them.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use uidring::segment::{LoadError, SegmentError};
use uidring::worker::RenewError;
use uidring::{
    CachedUidGenerator, Error, Layout, StoreError, StoreErrorKind, TakeError, Timestamp, Uid,
};

/// What the runtime prints of an error that `main` returns.
fn printed(error: impl Into<Box<dyn StdError>>) -> String {
    format!("Error: {:?}", error.into())
}

#[test]
fn a_main_prints_the_text_and_the_causes() {
    let error = CachedUidGenerator::builder().build().expect_err("no worker id");
    assert_eq!(
        printed(error),
        "Error: no worker id was given: pass one, or a source that hands one out"
    );
    let error = "2026-13-01".parse::<Timestamp>().expect_err("no such month");
    assert!(printed(error.clone()).starts_with("Error: `2026-13-01` is not a time: "));
    assert_eq!(printed(Error::from(error.clone())), printed(error));
    let error = "1\n".parse::<Uid>().expect_err("two lines");
    assert_eq!(printed(error), "Error: '\\n' at character 2 is not a digit of base 10");

    let away = StoreError::new(StoreErrorKind::Unreachable, io::Error::other("away"));
    assert_eq!(printed(away.clone()), "Error: away");
    let away = Error::from(away);
    assert_eq!(printed(away.clone()), "Error: away");
    assert_eq!(printed(RenewError::Lost(away.clone())), "Error: away");
    let down = SegmentError::StoreDown(Arc::new(LoadError::Store(away)));
    assert_eq!(printed(down), "Error: no segment could be loaded: away");
}

#[test]
fn a_main_prints_why_a_take_failed() -> Result<(), Error> {
    let generator = CachedUidGenerator::builder().worker_id(1).build()?;
    generator.close();
    assert_eq!(printed(TakeError::Closed), "Error: the generator is closed");
    let error = generator.fill(&mut [Uid::default()]).expect_err("closed");
    assert_eq!(printed(error), "Error: only 0 ids were filled in: the generator is closed");
    let error = Layout::SNOWFLAKE.check_worker_id(1 << 10).expect_err("too great");
    assert_eq!(format!("{error:#?}"), error.to_string());
    Ok(())
}
