//! `uidring generate`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uidring::{
    BaiduRules, CachedUidGenerator, Clock, ClockRules, ClockedUidGenerator, EnvWorkerId,
    FixedWorkerId, Layout, LeafRules, SnowflakeNode, SystemClock, TwitterRules, Uid, UidGenerator,
    Worker, WorkerIdAssigner,
};

use super::Failure;
use super::args::{GenerateArgs, Generator, WorkerKind};
use super::lease;
use super::lines::{self, Fields};

/// Uids that are taken and written at a time: 32 KiB of text, which stays in the first cache and
/// leaves the reader of a pipe, whose buffer is 64 KiB, something to do meanwhile.
const PORTION: u64 = 1_600;

/// A job of so many uids takes long enough to show how far it is.
const LONG_JOB: u64 = 20_000_000;

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let layout = args.layout.layout_or(args.generator.preset())?;
    check_usage(args, &layout)?;
    // A layout that cannot express the present time must not cost a worker id.
    layout.tick_at(SystemClock.now())?;
    let worker = match args.lease.worker {
        WorkerKind::Disposable => Worker::from(assign(args, &layout)?),
        WorkerKind::Lease => lease::acquire(args, &layout)?.into(),
    };
    match args.generator {
        Generator::Cached => {
            let mut builder = CachedUidGenerator::builder().layout(layout).worker(worker);
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
            serve(&builder.build()?, args)
        }
        Generator::Default => print_clocked::<BaiduRules>(layout, worker, args),
        Generator::Snowflake => print_clocked::<TwitterRules>(layout, worker, args),
        Generator::LeafSnowflake => print_clocked::<LeafRules>(layout, worker, args),
    }
}

fn print_clocked<R: ClockRules>(
    layout: Layout,
    worker: Worker,
    args: &GenerateArgs,
) -> Result<(), Failure> {
    let mut builder = ClockedUidGenerator::<R>::builder().layout(layout).worker(worker);
    if let Some(uid) = args.start_after {
        builder = builder.start_after(uid);
    }
    serve(&builder.build()?, args)
}

/// What is wrong with the flags is said before anything is done.
fn check_usage(args: &GenerateArgs, layout: &Layout) -> Result<(), Failure> {
    match args.generator {
        Generator::Cached => {
            let power = args.boost_power.unwrap_or(3);
            CachedUidGenerator::ring_memory(layout, power).map_err(Failure::usage)?;
        }
        Generator::Default | Generator::Snowflake | Generator::LeafSnowflake => {
            let flag = match () {
                () if args.boost_power.is_some() => Some("--boost-power"),
                () if args.max_borrow.is_some() => Some("--max-borrow"),
                () if args.max_lag.is_some() => Some("--max-lag"),
                () => None,
            };
            if let Some(flag) = flag {
                return Err(Failure::usage(format_args!(
                    "{flag} is for --generator cached, which has a ring"
                )));
            }
        }
    }
    lease::check_usage(args)?;
    if args.start_after.is_some() && args.worker_id.is_none() && !EnvWorkerId::is_set() {
        return Err(Failure::usage(
            "--start-after needs --worker-id, or UIDRING_WORKER_ID: a worker id from a table is new",
        ));
    }
    if args.worker_id.is_some() || (EnvWorkerId::is_set() && args.table.place.is_unnamed()) {
        args.table.refuse_mysql_flags()?;
    }
    if args.datacenter_id.is_some() && !args.layout.has_datacenters(args.generator.preset()) {
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
        (Some(datacenter), Some(worker)) => {
            let node = SnowflakeNode::new(datacenter, worker).map_err(Failure::usage)?;
            Ok(Some(node.as_worker_id()))
        }
        (_, worker_id) => Ok(worker_id),
    }
}

/// The worker id: from a flag, else from the environment, else from the user's own file.
fn assign(args: &GenerateArgs, layout: &Layout) -> Result<u64, Failure> {
    let fixed = if let Some(worker_id) = fixed_worker_id(args)? {
        FixedWorkerId(worker_id).assign(layout)?
    } else if let Some(table) = args.table.named()? {
        return Ok(table.assign(layout)?);
    } else if EnvWorkerId::is_set() {
        // The variable stands for the flag, and is as wrong as the flag would be.
        EnvWorkerId.assign(layout).map_err(Failure::usage)?
    } else {
        return Ok(args.table.unnamed()?.assign(layout)?);
    };
    if args.start_after.is_none() {
        eprintln!(
            "warning: a fixed worker id ({fixed}) has no memory: another run within one tick, \
             after a long borrow, or after the clock was set back, repeats uids; give the \
             greatest one so far with --start-after, or let --sqlite or --mysql hand out worker ids"
        );
    }
    Ok(fixed)
}

fn serve(generator: &dyn UidGenerator, args: &GenerateArgs) -> Result<(), Failure> {
    match args.lease.worker {
        WorkerKind::Disposable => print(generator, args),
        WorkerKind::Lease => lease::give_back_when_ended(generator, || print(generator, args)),
    }
}

fn print(generator: &dyn UidGenerator, args: &GenerateArgs) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let progress = progress(args.count);
    let mut uids = vec![Uid::default(); args.count.min(PORTION) as usize];
    let mut text = Vec::with_capacity(uids.len() * 20);
    let datacenters = args.layout.has_datacenters(args.generator.preset());
    let mut fields = Fields::new(generator.layout(), datacenters);
    let mut left = args.count;
    while left > 0 {
        let portion = &mut uids[..left.min(PORTION) as usize];
        let filled = generator.fill(portion);
        let count = filled.map_or_else(|error| error.filled, |()| portion.len());
        text.clear();
        lines::append(&mut text, &portion[..count], args.format, &mut fields)?;
        output.write_all(&text)?;
        filled?;
        left -= count as u64;
        progress.inc(count as u64);
    }
    output.flush()?;
    progress.finish_and_clear();
    Ok(())
}

/// A bar on stderr for a long job, if somebody looks at it and the uids go elsewhere.
fn progress(count: u64) -> ProgressBar {
    if count < LONG_JOB || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {human_pos} of {human_len} uids, {per_sec}, {eta} left";
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
