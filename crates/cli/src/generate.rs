//! `uidring generate`.

mod args;
mod segments;
mod uids;

use std::io::{self, IsTerminal};
use std::path::Path;

use uidring_any::{Options, Prepared};

pub use self::args::GenerateArgs;
use crate::args::layout::ResolvedLayout;
use crate::args::url::wrong;
use crate::failure::Failure;
use crate::lines::{Lines, lines};
use crate::output::{OpenSource, print};
use crate::sink;

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    generate(args).map_err(|failure| failure.advised(&args.url.flags()))
}

fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if args.format.is_binary() && path.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "--format binary is not for a terminal: name a file with --output, or a pipe".into(),
        ));
    }
    let options = args.url.options(args.options.given())?;
    let options = match args.start_after {
        Some(uid) => options.start_after(uid),
        None => options,
    };
    let (source, lines) = source(args, options)?;
    // In this order, wrong flags leave no file, and an output that cannot be written uses up no worker id.
    let sink = sink::open(path)?;
    print(args.count, lines, source, sink)
}

/// Checks the options. Returns how to open their generator, and the lines for its ids.
fn source(args: &GenerateArgs, options: Options) -> Result<(OpenSource<'_>, Lines), Failure> {
    let layout = ResolvedLayout::of(&options);
    let prepared = options.prepare().map_err(wrong)?;
    let layout = match prepared {
        Prepared::Segment(_) => None,
        _ => Some(layout),
    };
    if let Some(layout) = layout {
        layout.check_now()?;
    }
    let lines = lines(args.format, layout)?;
    let open: OpenSource<'_> = match prepared {
        Prepared::Segment(tag) => segments::open(tag, args.count),
        prepared => uids::open(prepared),
    };
    Ok((open, lines))
}
