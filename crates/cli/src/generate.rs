//! `uidring generate`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use uidring::adapter::Chain;
use uidring::policy::TakePolicy;
use uidring::segment::{Loaded, SegmentError, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator, Uid};
use uidring_any::{AnyGenerator, Prepared, PreparedTag, TagGenerator};
use uidring_store::values::number;

use crate::args::layout::ResolvedLayout;
use crate::args::options::OptionFlags;
use crate::args::url::{UrlArgs, wrong};
use crate::failure::Failure;
use crate::lines::{Format, lines};
use crate::output::print;
use crate::sink;

/// The most ids to reserve at once. An interrupted run loses what it has reserved.
const MAX_LOAD: u64 = 1_000_000;

/// Print fresh ids, one per line
///
/// Ids of different runs, processes and hosts differ because each generator has a worker id of its own. The store at the
/// URL hands them out; by default that is the file uidring/workers.db in your data directory. A layout with fewer than
/// 100,000 worker ids leases them, and gives them back; with more, each start uses one up. A file belongs to one host: do
/// not copy it to another, and do not restore an older state of it.
///
/// With --tag, the ids are the dense numbers of a tag that `uidring segment create` has created. The program reserves as
/// many as it prints, a million at a time, but at least the tag's step: with -n 10 and a step of 1000, the other 990 are
/// never issued. Neither is what an interrupted run has reserved.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 10 --format base62
  uidring generate -u 'sqlite:/var/lib/shop/workers.db?mode=rwc' -n 1M > ids.txt
  uidring generate --url-file /run/secrets/postgres-url --worker lease --layout snowflake")]
pub struct GenerateArgs {
    /// How many ids to print
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_hyphen_values = true,
          value_parser = number::<u64>(0..=u64::MAX))]
    pub count: u64,

    /// The form of the ids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: Format,

    /// Write the ids into this new file instead of stdout (`-` for stdout)
    ///
    /// They are on the disk when the program succeeds. If the disk fills up, the file keeps whole ids, and the program
    /// says how many.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Where ids come from")]
    pub url: UrlArgs,

    #[command(flatten, next_help_heading = "Generator")]
    pub options: OptionFlags<true>,

    /// Issue only uids above this one
    ///
    /// For worker:N, which has no memory: the greatest uid so far with the worker id.
    #[arg(long, value_name = "UID", allow_hyphen_values = true)]
    pub start_after: Option<Uid>,
}

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    generate(args).map_err(|failure| failure.advised(&args.url.flags()))
}

fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if args.format == Format::Binary && path.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "--format binary is not for a terminal: name a file with --output, or a pipe".into(),
        ));
    }
    let options = args.url.options(args.options.given())?;
    let options = match args.start_after {
        Some(uid) => options.start_after(uid),
        None => options,
    };
    let layout = ResolvedLayout::of(&options);
    let prepared = options.prepare().map_err(wrong)?;
    let layout = match prepared {
        Prepared::Segment(_) => None,
        _ => Some(layout),
    };
    layout.iter().try_for_each(ResolvedLayout::check_now)?;
    let lines = lines(args.format, layout)?;
    // In this order, a wrong flag leaves no file, and an unwritable output costs no worker id.
    let sink = sink::open(path)?;
    let open = || match prepared {
        Prepared::Segment(tag) => open_tag(tag, args.count),
        prepared => Ok(prepared.open()?),
    };
    print(args.count, lines, open, sink)
}

/// Opens the generator of this tag, for `count` ids.
fn open_tag(prepared: PreparedTag, count: u64) -> Result<AnyGenerator, Failure> {
    let PreparedTag { store, tag, take_policy, deadline, .. } = prepared;
    // Longer, so that the store's own deadline comes first.
    let limit = TakePolicy::WaitFor(deadline + Duration::from_secs(1));
    let generator = SegmentGenerator::builder(StepAsNeeded { store, left: count })
        .take_policy(take_policy.unwrap_or(limit))
        // Segments loaded in advance would be lost at the end.
        .depth(1)
        .max_depth(1)
        .build()?;
    let generator = TagGenerator::new(generator, &tag).map_err(|error| match error {
        SegmentError::UnknownTag(cause) => Failure::Failed(format!(
            "{}; `uidring segment create TAG --step S` creates one, `uidring segment list` shows \
             those that exist",
            Chain(&*cause)
        )),
        other => Error::from(other).into(),
    })?;
    Ok(AnyGenerator::Segment(generator))
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
