//! `uidring generate`.

mod args;
mod segments;
mod uids;
mod worker_id;

use uidring::generator::{BaiduRules, LeafRules, TwitterRules};

pub use self::args::GenerateArgs;
use self::args::Generator;
use crate::args::layout::Preset;
use crate::failure::Failure;
use crate::{output, stdio};

pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    // Fails before a worker id is used up if stdout is closed.
    drop(stdio::stdout()?);
    let (source, lines) = match args.generator {
        Generator::Cached => uids::open(args, Preset::Uid, uids::cached),
        Generator::Clock => uids::open(args, Preset::Uid, uids::clocked::<BaiduRules>),
        Generator::Snowflake => uids::open(args, Preset::Snowflake, uids::clocked::<TwitterRules>),
        Generator::LeafSnowflake => uids::open(args, Preset::Leaf, uids::clocked::<LeafRules>),
        Generator::Segment => segments::open(args),
    }?;
    output::print(args.count, lines, &*source)
}
