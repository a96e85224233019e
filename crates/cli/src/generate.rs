//! `uidring generate`.

mod args;
mod segments;
mod uids;

use std::io::{self, IsTerminal};
use std::path::Path;

use uidring::ClockedUidGenerator;

pub use self::args::GenerateArgs;
use self::args::Generator;
use crate::args::layout::Preset;
use crate::failure::Failure;
use crate::lines::Format;
use crate::{output, sink};

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    generate(args).map_err(|failure| failure.advised(&args.worker.flags()))
}

fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if args.format == Format::Binary && path.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "--format binary is not for a terminal: name a file with --output, or a pipe".into(),
        ));
    }
    let (source, lines) = match args.generator {
        Generator::Cached => uids::open(args, Preset::Uid, uids::cached),
        Generator::Clock => {
            uids::open(args, Preset::Uid, uids::clocked(ClockedUidGenerator::builder()))
        }
        Generator::Snowflake => {
            uids::open(args, Preset::Snowflake, uids::clocked(ClockedUidGenerator::snowflake()))
        }
        Generator::LeafSnowflake => {
            uids::open(args, Preset::Leaf, uids::clocked(ClockedUidGenerator::leaf_snowflake()))
        }
        Generator::Segment => segments::open(args),
    }?;
    // Wrong flags leave no file, and a closed stdout or a file that cannot be written uses up no worker id.
    let sink = sink::open(path)?;
    output::print(args.count, lines, source, sink)
}
