//! Uids for `uidring generate`: a generator as a source.

use std::time::Duration;

use uidring::Uid;
use uidring_any::{AnyGenerator, OtherGenerator, Prepared};

use crate::failure::Failure;
use crate::output::{OpenSource, Source};
use crate::pace::Pace;

/// Returns how to open this generator of uids.
pub fn open(prepared: Prepared) -> OpenSource<'static> {
    Box::new(move || {
        let generator = prepared.open()?;
        let pace = pace(&generator);
        Ok(Box::new(Uids { generator, pace }))
    })
}

/// Returns what bounds the generator's uids, if anything does.
fn pace(generator: &AnyGenerator) -> Option<Pace> {
    let (worker_id, lease, lead, max_borrow) = match generator {
        AnyGenerator::Other(OtherGenerator::Clocked(generator)) => {
            let stats = generator.stats();
            (stats.worker_id, stats.lease, Duration::ZERO, None)
        }
        generator => {
            let generator = generator.as_cached()?;
            let stats = generator.stats();
            (stats.worker_id, stats.lease, stats.lead, Some(generator.max_borrow()?))
        }
    };
    let layout = *generator.as_uid_generator()?.layout();
    Some(Pace { layout, worker_id, is_leased: lease.is_some(), lead, max_borrow })
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
