//! How a `main` that returns errors prints them, and how they convert.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use uidring::segment::{LoadError, MemorySegments, SegmentError};
use uidring::worker::RenewError;
use uidring::{
    CachedUidGenerator, Error, Layout, SegmentGenerator, StoreError, StoreErrorKind, TakeError,
    Timestamp, Uid,
};

/// Returns what the runtime prints for an error of `main`.
fn printed(error: impl Into<Box<dyn StdError>>) -> String {
    format!("Error: {:?}", error.into())
}

#[test]
fn a_main_prints_the_text_and_the_causes() {
    let error = CachedUidGenerator::builder().build().expect_err("no worker id");
    assert_eq!(
        printed(error),
        "Error: no worker id was given: call worker_id(N), or worker_from(source) with a source that hands one out"
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

/// All that a program does with ids, with one error type.
fn all_errors_convert(texts: &[&str]) -> Result<Uid, Error> {
    let layout: Layout = texts[0].parse()?;
    let epoch: Timestamp = texts[1].parse()?;
    let generator = CachedUidGenerator::builder().worker_id(1).layout(layout).build()?;
    let mut batch = [Uid::default(); 10];
    generator.fill(&mut batch)?;
    let uid = generator.next_uid()?;
    assert!(SystemTime::try_from(epoch)? < SystemTime::now());
    assert_eq!(Uid::try_from(uid.get())?, uid);
    let numbers = SegmentGenerator::builder(MemorySegments::new()).build()?;
    if let Some(tag) = texts.get(3) {
        numbers.tag(tag)?.fill(&mut [0; 10])?;
    }
    Ok(texts[2].parse()?)
}

#[test]
fn errors_of_takes_and_texts_convert_with_a_question_mark() {
    let epoch = "41/10/12 in ms since 2026-01-01";
    assert_eq!(all_errors_convert(&[epoch, "2026-01-01", "0x10"]).expect("fine").get(), 16);
    let failed = |texts: &[&str]| all_errors_convert(texts).expect_err("one is wrong");
    assert!(matches!(failed(&["41"]), Error::InvalidLayout { .. }));
    assert!(matches!(failed(&[epoch, "today"]), Error::InvalidTime(_)));
    assert!(matches!(failed(&[epoch, "2026-01-01", "z"]), Error::InvalidUid(_)));
    let no_tag = failed(&[epoch, "2026-01-01", "1", "orders"]);
    let cause = no_tag.store::<SegmentError>().expect("the segment's error");
    assert!(matches!(cause, SegmentError::UnknownTag(_)) && !no_tag.may_pass(), "{no_tag}");
    assert_eq!(no_tag.to_string(), cause.to_string());

    let empty = Error::from(TakeError::Empty);
    assert!(empty.may_pass() && empty.to_string() == TakeError::Empty.to_string());
    let uid = Uid::try_from(-1_i64).map_err(Error::from).expect_err("negative");
    assert_eq!(uid.to_string(), Uid::try_from(-1_i64).expect_err("negative").to_string());
}
