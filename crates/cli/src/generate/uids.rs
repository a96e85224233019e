//! Uids for `uidring generate`: a generator as a source.

use std::time::Duration;

use uidring::Uid;
use uidring_any::{AnyGenerator, Prepared};

use crate::failure::Failure;
use crate::output::{OpenSource, Source};
use crate::pace::Pace;

/// How to open this generator of uids.
pub fn open(prepared: Prepared) -> OpenSource<'static> {
    Box::new(move || {
        let generator = prepared.open()?;
        let pace = pace(&generator);
        Ok(Box::new(Uids { generator, pace }))
    })
}

/// How fast uids can be had, unless there is no limit.
fn pace(generator: &AnyGenerator) -> Option<Pace> {
    match generator {
        AnyGenerator::Cached(generator) => {
            let stats = generator.stats();
            Some(Pace {
                layout: *generator.layout(),
                worker_id: stats.worker_id,
                is_leased: stats.lease.is_some(),
                lead: stats.lead,
                max_borrow: Some(generator.max_borrow()?),
            })
        }
        AnyGenerator::Clocked(generator) => {
            let stats = generator.stats();
            Some(Pace {
                layout: *generator.layout(),
                worker_id: stats.worker_id,
                is_leased: stats.lease.is_some(),
                lead: Duration::ZERO,
                max_borrow: None,
            })
        }
        _ => None,
    }
}

struct Uids {
    generator: AnyGenerator,
    pace: Option<Pace>,
}

impl Source for Uids {
    fn take_ready(&self, out: &mut [Uid]) -> usize {
        let generator = self.generator.as_uid_generator();
        generator.map_or(0, |generator| generator.try_fill(out).unwrap_or(0))
    }

    fn wait(&self) -> Result<Uid, Failure> {
        self.generator.next_uid().map_err(|error| Failure::from(uidring::Error::from(error)))
    }

    fn pace(&self) -> Option<Pace> {
        self.pace
    }

    fn close(&self) {
        self.generator.close();
    }
}
