//! `uidring generate --generator segment`.

use std::mem;
use std::time::Duration;

use uidring::adapter::Chain;
use uidring::policy::TakePolicy;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
use uidring::segment::{SegmentError, SegmentHandle};
use uidring::{Error, SegmentGenerator, Uid};
use uidring_store::TableError;

use crate::Failure;
use crate::args::{GenerateArgs, WorkerKind};
use crate::ending;
use crate::lines::Lines;
use crate::output::{self, Printed, Source};

/// More than this is not reserved at once: what an interrupted run has reserved is lost.
const MAX_LOAD: u64 = 1_000_000;

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let (tag, mut lines) = check_usage(args)?;
    let store = Measured { store: args.table.place.any()?.segment_store(), left: args.count };
    // The store has had its deadline before we hear of it.
    let patience = Duration::from_secs(args.table.place.mysql_deadline + 1);
    let generator = SegmentGenerator::builder(store)
        .take_policy(TakePolicy::WaitFor(patience))
        // Nothing ahead of need, which would be lost at the end.
        .depth(1)
        .max_depth(1)
        .build()?;
    let handle = generator.tag(tag).map_err(failure)?;
    let mut source = Ids { handle, ids: Vec::new(), wrong: Ok(()) };
    let printed = Printed::default();
    ending::work(
        &printed,
        || generator.close(),
        || output::print(args.count, &mut lines, &mut source, &printed),
    )
}

struct Ids {
    handle: SegmentHandle,
    /// As they come from the segment.
    ids: Vec<u64>,
    /// What is wrong with the next one.
    wrong: Result<(), Failure>,
}

impl Source for Ids {
    fn take_ready(&mut self, out: &mut [Uid]) -> usize {
        self.ids.resize(out.len(), 0);
        let taken = self.handle.try_fill(&mut self.ids).unwrap_or(0);
        let (converted, done) = convert(&self.ids[..taken], out);
        self.wrong = done;
        converted
    }

    fn wait(&mut self, out: &mut [Uid]) -> (usize, Result<(), Failure>) {
        if let Err(wrong) = mem::replace(&mut self.wrong, Ok(())) {
            return (0, Err(wrong));
        }
        self.ids.resize(1, 0);
        let (taken, done) = match self.handle.fill(&mut self.ids) {
            Ok(()) => (1, Ok(())),
            Err(error) => (error.filled, Err(failure(error.error))),
        };
        let (converted, right) = convert(&self.ids[..taken], out);
        (converted, right.and(done))
    }
}

/// What is wrong with the flags is said before anything is done.
fn check_usage(args: &GenerateArgs) -> Result<(&str, Lines<'static>), Failure> {
    let flag = match () {
        () if args.worker_id.is_some() => Some("--worker-id"),
        () if args.datacenter_id.is_some() => Some("--datacenter-id"),
        () if args.start_after.is_some() => Some("--start-after"),
        () if args.registry.zookeeper.is_some() => Some("--zookeeper"),
        () if args.table.max_clock_difference.is_some() => Some("--max-clock-difference"),
        () if args.lease.worker == WorkerKind::Lease => Some("--worker lease"),
        () if args.lease.lease.is_some() => Some("--lease"),
        () if args.lease.lease_wait.is_some() => Some("--lease-wait"),
        () => args.layout.given().or(args.given_for_rings()),
    };
    if let Some(flag) = flag {
        return Err(Failure::usage(format_args!(
            "{flag} is not for --generator segment, whose ids have no worker, no time and no ring"
        )));
    }
    let lines = Lines::plain(args.format).ok_or_else(|| {
        Failure::usage("--format json is of uids, which have fields; a segment's id has none")
    })?;
    let tag = args.tag.as_deref().ok_or_else(|| {
        Failure::usage("--generator segment needs --tag, the tag whose ids are wanted")
    })?;
    // It may hold a password, and errors name the tag.
    if tag.contains("://") {
        return Err(Failure::usage(TableError::UrlForTag));
    }
    Ok((tag, lines))
}

fn failure(error: SegmentError) -> Failure {
    match error {
        SegmentError::UnknownTag(cause) => Failure::Failed(format!(
            "{cause}: `uidring segment create TAG --step S` makes one, `uidring segment list` shows \
             those that there are"
        )),
        other => Failure::Failed(Chain(&other).to_string()),
    }
}

/// Ids of segments are below 2^63, as uids are, and print in the same forms.
fn convert(ids: &[u64], uids: &mut [Uid]) -> (usize, Result<(), Failure>) {
    for (index, (uid, &id)) in uids.iter_mut().zip(ids).enumerate() {
        match Uid::try_from(id) {
            Ok(converted) => *uid = converted,
            Err(error) => return (index, Err(Failure::Failed(error.to_string()))),
        }
    }
    (ids.len(), Ok(()))
}

/// A store for a tag of which a known number of ids is wanted: so many are loaded, and no more but
/// for the table's step.
struct Measured {
    store: Box<dyn SegmentStore>,
    left: u64,
}

impl SegmentStore for Measured {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.store.tags()
    }

    fn load(
        &mut self,
        wanted: &[SegmentRequest],
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    ) {
        let Self { store, left } = self;
        let step = (*left).min(MAX_LOAD);
        let measured = |request: &SegmentRequest| SegmentRequest { tag: request.tag.clone(), step };
        let wanted: Vec<_> = wanted.iter().map(measured).collect();
        store.load(&wanted, &mut |place, result| {
            if let Ok(range) = &result {
                *left = left.saturating_sub(range.end - range.start);
            }
            loaded(place, result);
        });
    }
}
