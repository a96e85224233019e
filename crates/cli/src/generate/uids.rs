//! Uids for `uidring generate`: the flags of a generator, and the generator as a source.

use std::time::Duration;

use uidring::generator::{CachedBuilder, ClockedBuilder};
use uidring::{CachedUidGenerator, Layout, Uid, UidGenerator, WorkerSource};

use super::args::{GenerateArgs, Generator};
use crate::args::layout::Preset;
use crate::args::{check, set};
use crate::failure::Failure;
use crate::lines::{Lines, lines};
use crate::output::{OpenSource, Source};
use crate::pace::Pace;
use crate::worker_source;

/// A source of worker ids.
pub type Workers = Box<dyn WorkerSource + Send>;

/// Checks the flags, and returns how to build the generator that they describe, and the lines for its uids.
/// Without --preset, its layout starts from this one.
pub fn open<'a>(
    args: &'a GenerateArgs,
    preset: Preset,
    build: impl FnOnce(&GenerateArgs, Layout, Workers) -> Result<Box<dyn Source>, Failure> + 'a,
) -> Result<(OpenSource<'a>, Lines), Failure> {
    check(&[("--tag", args.tag.is_some(), "is for --generator segment")])?;
    let layout = args.layout.resolve(preset)?;
    if args.generator == Generator::Cached {
        let power = args.ring.boost_power.unwrap_or(3);
        CachedUidGenerator::ring_memory(&layout.layout, power).map_err(Failure::usage)?;
    } else {
        args.ring.refuse("is for --generator cached, which has a ring")?;
    }
    layout.check_now()?;
    let lines = lines(args.format, Some(layout))?;
    let worker = worker_source::source(&args.worker, layout)?;
    Ok((Box::new(move || build(args, layout.layout, worker)), lines))
}

pub fn cached(
    args: &GenerateArgs,
    layout: Layout,
    worker: Workers,
) -> Result<Box<dyn Source>, Failure> {
    let builder = CachedUidGenerator::builder().layout(layout).worker_from(worker);
    let builder = set(builder, args.worker.start_after, CachedBuilder::start_after);
    let builder = set(builder, args.worker.max_start_wait, CachedBuilder::max_start_wait);
    let generator = args.ring.apply(builder).build()?;
    let stats = generator.stats();
    let pace = generator.max_borrow().map(|limit| Pace {
        layout,
        worker_id: stats.worker_id,
        is_leased: stats.lease.is_some(),
        lead: stats.lead,
        max_borrow: Some(limit),
    });
    Ok(Box::new(Uids { generator, pace }))
}

/// Builds a generator on the clock from this builder.
pub fn clocked(
    builder: ClockedBuilder,
) -> impl FnOnce(&GenerateArgs, Layout, Workers) -> Result<Box<dyn Source>, Failure> {
    |args, layout, worker| {
        let builder = builder.layout(layout).worker_from(worker);
        let builder = set(builder, args.worker.start_after, ClockedBuilder::start_after);
        let builder = set(builder, args.worker.max_start_wait, ClockedBuilder::max_start_wait);
        let generator = builder.build()?;
        let stats = generator.stats();
        let (worker_id, is_leased) = (stats.worker_id, stats.lease.is_some());
        let pace = Pace { layout, worker_id, is_leased, lead: Duration::ZERO, max_borrow: None };
        Ok(Box::new(Uids { generator, pace: Some(pace) }))
    }
}

struct Uids<G> {
    generator: G,
    pace: Option<Pace>,
}

impl<G: UidGenerator + Send + Sync> Source for Uids<G> {
    fn take_ready(&self, out: &mut [Uid]) -> usize {
        self.generator.try_fill(out).unwrap_or(0)
    }

    fn wait(&self) -> Result<Uid, Failure> {
        Ok(self.generator.next_uid()?)
    }

    fn pace(&self) -> Option<Pace> {
        self.pace
    }

    fn close(&self) {
        self.generator.close();
    }
}
