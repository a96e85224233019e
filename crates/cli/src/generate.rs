//! `uidring generate`.

mod segments;

use uidring::generator::{
    BaiduRules, ClockRules, ClockedUidGenerator, LeafRules, SnowflakeNode, TwitterRules,
};
use uidring::worker::{EnvWorkerId, FixedWorkerId};
use uidring::{CachedUidGenerator, Layout, Uid, UidGenerator, WorkerRequest, WorkerSource};

use super::Failure;
use super::args::{GenerateArgs, Generator, Preset, WorkerKind};
use super::ending;
use super::lease;
use super::lines::Lines;
use super::output::{self, Printed, Source};

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    if args.generator != Generator::Segment && args.tag.is_some() {
        return Err(Failure::usage("--tag is for --generator segment"));
    }
    // Nothing is spent on ids that nobody would get to know.
    drop(output::stdout()?);
    match args.generator {
        Generator::Cached => print_cached(Start::new(args, Preset::Uid)?),
        Generator::Clock => print_clocked::<BaiduRules>(Start::new(args, Preset::Uid)?),
        Generator::Snowflake => print_clocked::<TwitterRules>(Start::new(args, Preset::Snowflake)?),
        Generator::LeafSnowflake => print_clocked::<LeafRules>(Start::new(args, Preset::Leaf)?),
        Generator::Segment => segments::run(args),
    }
}

/// What a generator of uids starts with.
struct Start<'a> {
    args: &'a GenerateArgs,
    layout: Layout,
    source: Box<dyn WorkerSource + Send>,
    /// Whether the worker field is shown as Twitter's datacenter and worker.
    datacenters: bool,
}

impl<'a> Start<'a> {
    /// With this preset's layout if the flags name none.
    fn new(args: &'a GenerateArgs, preset: Preset) -> Result<Self, Failure> {
        let layout = args.layout.layout_or(preset)?;
        let datacenters = args.layout.has_datacenters(preset);
        check_usage(args, &layout, datacenters)?;
        let source = match args.lease.worker {
            WorkerKind::Disposable => source(args, &layout)?,
            WorkerKind::Lease => lease::source(args)?,
        };
        Ok(Self { args, layout, source, datacenters })
    }
}

/// A generator of uids whose waiting takes wait.
struct Uids<'a>(&'a (dyn UidGenerator + Sync));

impl Source for Uids<'_> {
    fn take_ready(&mut self, out: &mut [Uid]) -> usize {
        self.0.try_fill(out).unwrap_or(0)
    }

    fn wait(&mut self, out: &mut [Uid]) -> (usize, Result<(), Failure>) {
        // One, and then what is ready: the rest may take long.
        match self.0.fill(&mut out[..1]) {
            Ok(()) => (1, Ok(())),
            Err(error) => (error.filled, Err(error.error.into())),
        }
    }
}

/// Prints the uids; if the program is told to end meanwhile, a leased worker id is given back first.
fn print(
    generator: &(dyn UidGenerator + Sync),
    args: &GenerateArgs,
    datacenters: bool,
) -> Result<(), Failure> {
    let mut lines = Lines::of(args.format, generator.layout(), datacenters);
    let printed = Printed::default();
    ending::work(
        &printed,
        || generator.close(),
        || output::print(args.count, &mut lines, &mut Uids(generator), &printed),
    )
}

fn print_cached(start: Start<'_>) -> Result<(), Failure> {
    let Start { args, layout, source, datacenters } = start;
    let mut builder = CachedUidGenerator::builder().layout(layout).worker_from(source);
    if let Some(power) = args.boost_power {
        builder = builder.boost_power(power);
    }
    if let Some(limit) = args.max_borrow {
        builder = builder.max_borrow(limit);
    }
    if let Some(limit) = args.max_lag {
        builder = builder.max_lag(limit);
    }
    if let Some(uid) = args.start_after {
        builder = builder.start_after(uid);
    }
    let generator = builder.build()?;
    print(&generator, args, datacenters)
}

fn print_clocked<R: ClockRules>(start: Start<'_>) -> Result<(), Failure> {
    let Start { args, layout, source, datacenters } = start;
    let mut builder = ClockedUidGenerator::<R>::builder().layout(layout).worker_from(source);
    if let Some(uid) = args.start_after {
        builder = builder.start_after(uid);
    }
    let generator = builder.build()?;
    print(&generator, args, datacenters)
}

/// What is wrong with the flags is said before anything is done.
fn check_usage(args: &GenerateArgs, layout: &Layout, datacenters: bool) -> Result<(), Failure> {
    if args.generator == Generator::Cached {
        let power = args.boost_power.unwrap_or(3);
        CachedUidGenerator::ring_memory(layout, power).map_err(Failure::usage)?;
    } else if let Some(flag) = args.given_for_rings() {
        return Err(Failure::usage(format_args!(
            "{flag} is for --generator cached, which has a ring"
        )));
    }
    lease::check_usage(args)?;
    if args.start_after.is_some() && args.worker_id.is_none() && !EnvWorkerId::is_set() {
        return Err(Failure::usage(
            "--start-after needs --worker-id, or UIDRING_WORKER_ID: a worker id from a table is new",
        ));
    }
    if args.registry.zookeeper.is_some() {
        args.table.place.refuse_mysql_flags()?;
        // What is wrong with the words is said before anybody is asked.
        args.leaf_registry()?;
    } else if args.worker_id.is_some() || (EnvWorkerId::is_set() && args.table.place.is_unnamed()) {
        args.table.refuse_mysql_flags()?;
    }
    if args.datacenter_id.is_some() && !datacenters {
        return Err(Failure::usage("--datacenter-id is for --generator snowflake, or its preset"));
    }
    if let Some(worker_id) = fixed_worker_id(args)? {
        layout.check_worker_id(worker_id).map_err(Failure::usage)?;
    }
    Ok(())
}

/// The worker id of the flags, of which Twitter's form has two.
fn fixed_worker_id(args: &GenerateArgs) -> Result<Option<u64>, Failure> {
    match (args.datacenter_id, args.worker_id) {
        (Some(datacenter_id), Some(worker_id)) => {
            let node = SnowflakeNode { datacenter_id, worker_id };
            node.as_worker_id().map(Some).map_err(Failure::usage)
        }
        (_, worker_id) => Ok(worker_id),
    }
}

/// The source of the worker id: a flag, else the environment, else the user's own file.
fn source(args: &GenerateArgs, layout: &Layout) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    let fixed = if let Some(worker_id) = fixed_worker_id(args)? {
        worker_id
    } else if let Some(table) = args.table.named()? {
        return Ok(Box::new(table));
    } else if let Some(registry) = args.leaf_registry()? {
        return Ok(registry);
    } else if EnvWorkerId::is_set() {
        // The variable stands for the flag, and is as wrong as the flag would be.
        let worker = EnvWorkerId.acquire(&WorkerRequest::new(*layout));
        worker.map_err(Failure::usage)?.id()
    } else {
        return Ok(Box::new(args.table.unnamed()?));
    };
    if args.start_after.is_none() {
        eprintln!(
            "warning: a fixed worker id ({fixed}) has no memory: another run within one tick, \
             after a long borrow, or after the clock was set back, repeats uids; give the \
             greatest one so far with --start-after, or let --sqlite or --mysql hand out worker ids"
        );
    }
    Ok(Box::new(FixedWorkerId(fixed)))
}
