//! `uidring generate`.

mod args;
mod segments;
mod uids;
mod worker_id;

pub use self::args::GenerateArgs;
use self::args::Generator;
use crate::failure::Failure;
use crate::{output, stdio};

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    // Nothing is spent on ids that nobody would see.
    drop(stdio::stdout()?);
    let (source, lines) = match args.generator {
        Generator::Segment => segments::open(args)?,
        _ => uids::open(args)?,
    };
    output::print(args.count, lines, &*source)
}
