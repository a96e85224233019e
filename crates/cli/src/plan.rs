//! `uidring plan`.

mod after;

use std::time::Duration;

use clap::Args;
use indicatif::BinaryBytes;
use serde_json::{Value, json};
use uidring::clock::{Clock, SystemClock};
use uidring::{CachedUidGenerator, Layout, Timestamp};
use uidring_any::table::read_layout;
use uidring_any::{WorkerKind, WorkerUsage};

use self::after::{Succession, succession};
use crate::advice::with_flags;
use crate::args::layout::LayoutArgs;
use crate::args::url::{UrlArgs, wrong};
use crate::failure::Failure;
use crate::text::span;
use crate::{stdio, table};
use uidring_store::values::number;

/// Show what a layout can do, before you use it
///
/// With the URL of a store, also show how many of its worker ids are used up, and when they run out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring plan
  uidring plan --layout 31/10/12 --rate 50000
  uidring plan --layout 41/10/12/ms/2020-01-01 --json
  uidring plan --layout 31/10/22 --after uid
  uidring plan --url-file /run/secrets/mysql-url")]
pub struct PlanArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// An earlier layout: say from which day on all ids are above those of it
    ///
    /// Its generators may run until the end of that day, and be up to a day ahead of the clock then.
    #[arg(long, value_name = "LAYOUT", value_parser = read_layout, allow_hyphen_values = true)]
    pub after: Option<Layout>,

    /// The ring's size: (max sequence + 1) << P uids, P from 1 to 16
    #[arg(long, value_name = "P", default_value = "3", value_parser = number::<u32>(1..=16),
          allow_hyphen_values = true)]
    pub boost_power: u32,

    /// Uids per second of one worker in a burst
    #[arg(long, value_name = "R", default_value = "1M", value_parser = number::<u64>(1..=u64::MAX),
          allow_hyphen_values = true)]
    pub rate: u64,

    /// Print a JSON object instead of a table
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub url: UrlArgs,
}

pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let flags = &args.url.flags();
    let (mut layout, mut usage) = (args.layout.layout()?, None);
    if args.url.is_given()? {
        let options = args.url.options(args.layout.option())?;
        layout = options.layout();
        if options.worker_kind() != WorkerKind::Chosen {
            let read = || Ok(options.store().map_err(wrong)?.worker_table()?.usage()?);
            usage = Some(read().map_err(|failure: Failure| failure.advised(flags))?);
        }
    }
    let layout = &layout;
    let memory =
        CachedUidGenerator::ring_memory(layout, args.boost_power).map_err(Failure::usage)?;
    let now = SystemClock.now();
    let left = layout.remaining_life(now);
    let ring_uids = layout.uids_per_tick() << args.boost_power;
    let ticks_per_second = 1_000 / layout.tick().millis().unsigned_abs();
    let uids_per_second = u128::from(layout.uids_per_tick()) * u128::from(ticks_per_second);
    // Seconds of the time field that a second of the burst uses up.
    let speed = args.rate as f64 / uids_per_second as f64;
    // How long the burst can go on; `None` if the clock uses up the time field first.
    let burst = Duration::try_from_secs_f64(left.as_secs_f64() / speed).ok();
    let burst = burst.filter(|_| speed > 1.0);
    if args.json {
        let mut plan = json!({
            "layout": layout.bits().to_string(),
            "tick": layout.tick().to_string(),
            "epoch": layout.epoch().to_string(),
            "last_instant": layout.last_instant().to_string(),
            "remaining_seconds": left.as_secs(),
            "workers": layout.workers(),
            "uids_per_second": uids_per_second as f64,
            "ring_uids": ring_uids,
            "ring_bytes": memory,
            "burst_rate": args.rate,
            "burst_lead_per_second": (speed - 1.0).max(0.0),
            "burst_seconds": burst.map(|burst| burst.as_secs()),
        });
        if let Some(usage) = usage {
            plan["worker_table"] = json!({
                "starts": usage.rows,
                "newest_worker_id": usage.newest,
                "worker_ids_left": usage.left(layout),
                "worker_ids_per_day": usage.per_day,
                "runs_out": usage.runs_out(layout).map(|day| day.to_string()),
            });
        }
        if let Some(old) = &args.after {
            plan["after"] = as_json(old, succession(old, layout, now));
        }
        return stdio::print(&plan.to_string());
    }
    let last_day = layout.last_instant().date();
    let life = match () {
        () if now < layout.epoch() => format!("{last_day}; the epoch is in the future"),
        () if left.is_zero() => format!("{last_day}: it is over, choose a later epoch"),
        () => format!("{last_day}, in {}", span(left)),
    };
    let burst = match burst {
        Some(burst) => format!(
            "each second borrows {:.1} s of the future; the time field lasts {}",
            speed - 1.0,
            span(burst)
        ),
        None => "borrows nothing: the clock is fast enough".into(),
    };
    let mut rows = vec![
        ("layout", format!("{} bits (time/worker/sequence)", layout.bits())),
        ("tick", layout.tick().to_string()),
        ("epoch", layout.epoch().to_string()),
        ("last day", life),
        ("workers", format!("{} (0 to {})", layout.workers(), layout.max_worker_id())),
        ("uids/s/worker", uids_per_second.to_string()),
        ("ring", format!("{ring_uids} uids in {}", BinaryBytes(memory))),
        ("burst", format!("{} uids/s: {burst}", args.rate)),
    ];
    if let Some(old) = &args.after {
        rows.push(("after", follows(old, succession(old, layout, now))));
    }
    if let Some(usage) = usage {
        rows.push(("starts so far", starts(&usage, layout)));
        let end = worker_ids_end(&usage, layout, now);
        rows.push(("worker ids end", with_flags(&end, flags)));
    }
    stdio::print(&table::facts(rows))
}

fn follows(old: &Layout, succession: Option<Succession>) -> String {
    let Some(Succession { instead, first, end }) = succession else {
        return format!("no ids of these widths are above those of {old}; use a layout of 63 bits");
    };
    let before = end.map_or_else(String::new, |end| format!(", and before {}", end.date()));
    let switch = format!("if you switch on {} or later{before}", first.date());
    match instead {
        None => format!("ids are above all of {old} {switch}"),
        Some(layout) => format!(
            "ids are not above those of {old}; with --layout {}, which ends on {}, they are {switch}",
            written(layout),
            layout.last_instant().date()
        ),
    }
}

fn as_json(old: &Layout, succession: Option<Succession>) -> Value {
    let day = |day: Timestamp| day.date().to_string();
    json!({
        "layout": old.to_string(),
        "first_day": succession.map(|days| day(days.first)),
        "before": succession.and_then(|days| days.end).map(day),
        "instead": succession.and_then(|days| days.instead).map(written),
    })
}

/// Writes a layout as the flag's value.
fn written(layout: Layout) -> String {
    format!("{}/{}/{}", layout.bits(), layout.tick(), layout.epoch().date())
}

fn starts(usage: &WorkerUsage, layout: &Layout) -> String {
    match usage.newest {
        None => "none: the table is empty".into(),
        Some(newest) => format!(
            "{} in the table, the newest is worker {newest}; {} left",
            usage.rows,
            match usage.left(layout) {
                1 => "1 worker id is".into(),
                left => format!("{left} worker ids are"),
            }
        ),
    }
}

fn worker_ids_end(usage: &WorkerUsage, layout: &Layout, now: Timestamp) -> String {
    match (usage.per_day, usage.runs_out(layout)) {
        _ if usage.left(layout) == 0 => format!(
            "now: lease those of starts that have ended (`uidring worker reuse FIRST LAST --used-until TIME`), or use {}",
            match usage.range {
                None => "a layout with more worker bits",
                Some(_) => "another database with another range",
            }
        ),
        (None, _) => {
            "too early to tell: that needs a start at least an hour ago, and one since".into()
        }
        (Some(rate), Some(day)) => {
            let time = span(day.saturating_since(now));
            format!("{}, in {time}, at {rate:.1} a day", day.date())
        }
        (Some(0.0), None) => "not in sight: no starts in the last 30 days".into(),
        (Some(rate), None) => format!("not in sight, at {rate:.1} a day"),
    }
}
