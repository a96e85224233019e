//! Ids of segments for `uidring generate --generator segment`.

use std::time::Duration;

use uidring::adapter::Chain;
use uidring::policy::TakePolicy;
use uidring::segment::{Loaded, SegmentRequest, SegmentStore, SegmentTag};
use uidring::segment::{SegmentError, SegmentHandle};
use uidring::{Error, SegmentGenerator, Uid};
use uidring_any::PreparedTag;

use crate::failure::Failure;
use crate::output::{OpenSource, PORTION, Source};
use crate::pace::Pace;

/// The most ids to reserve at once. An interrupted run loses what it has reserved.
const MAX_LOAD: u64 = 1_000_000;

/// Returns how to open the generator of this tag, for `count` ids.
pub fn open(prepared: PreparedTag, count: u64) -> OpenSource<'static> {
    Box::new(move || {
        let PreparedTag { store, tag, take_policy, deadline, .. } = prepared;
        // Longer, so that the store's own deadline comes first.
        let limit = TakePolicy::WaitFor(deadline + Duration::from_secs(1));
        let generator = SegmentGenerator::builder(StepAsNeeded { store, left: count })
            .take_policy(take_policy.unwrap_or(limit))
            // Segments loaded in advance would be lost at the end.
            .depth(1)
            .max_depth(1)
            .build()?;
        let handle = generator.tag(&tag).map_err(failure)?;
        Ok(Box::new(Ids { generator, handle }))
    })
}

struct Ids {
    generator: SegmentGenerator,
    handle: SegmentHandle,
}

impl Source for Ids {
    fn take_ready(&self, out: &mut [Uid]) -> usize {
        let mut ids = [0; PORTION];
        let limit = out.len().min(PORTION);
        let taken = self.handle.try_fill(&mut ids[..limit]).unwrap_or(0);
        for (uid, id) in out.iter_mut().zip(&ids[..taken]) {
            *uid = printable(*id);
        }
        taken
    }

    fn wait(&self) -> Result<Uid, Failure> {
        self.handle.next_id().map(printable).map_err(failure)
    }

    fn pace(&self) -> Option<Pace> {
        None
    }

    fn close(&self) {
        self.generator.close();
    }
}

/// Prints an id in the same forms as a uid. Both have 63 bits.
fn printable(id: u64) -> Uid {
    Uid::new(id).expect("max_id, which is above all ids, is an i64")
}

fn failure(error: SegmentError) -> Failure {
    Failure::Failed(match error {
        SegmentError::UnknownTag(cause) => format!(
            "{}; `uidring segment create TAG --step S` creates one, `uidring segment list` shows \
             those that exist",
            Chain(&*cause)
        ),
        other => Chain(&other).to_string(),
    })
}

/// Loads as many ids as are wanted, at least the table's step.
struct StepAsNeeded {
    store: Box<dyn SegmentStore>,
    left: u64,
}

impl SegmentStore for StepAsNeeded {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.store.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let Self { store, left } = self;
        let step = (*left).min(MAX_LOAD);
        let sized = |request: &SegmentRequest| SegmentRequest { tag: request.tag.clone(), step };
        let wanted: Vec<_> = wanted.iter().map(sized).collect();
        store.load(&wanted, &mut |index, result| {
            if let Ok(range) = &result {
                *left = left.saturating_sub(range.end - range.start);
            }
            loaded(index, result);
        });
    }
}
