//! Flags for the layout of uids.

use clap::Args;
use uidring::Layout;
use uidring::clock::{Clock, SystemClock};
use uidring::generator::SnowflakeNode;
use uidring_any::Options;
use uidring_any::table::read_layout;

use crate::failure::Failure;

/// The layouts with a name. `leaf` is an alias.
pub const NAMED: [&str; 4] = ["uid", "uid-long", "snowflake", "javascript-safe"];

/// A layout.
#[derive(Args)]
pub struct LayoutArgs {
    /// How the bits of a uid are divided: uid, uid-long, snowflake, leaf or javascript-safe; the bits of time, worker id
    /// and sequence, as in 31/10/22, which count seconds since 2026; or these with the tick and the epoch, as in
    /// 41/10/12/ms/2020-01-01. Without it: uid
    #[arg(long, allow_hyphen_values = true,
          value_parser = |text: &str| read_layout(text).map(|_| text.to_owned()))]
    layout: Option<String>,
}

/// A layout, and how its uids are shown.
#[derive(Clone, Copy)]
pub struct ResolvedLayout {
    pub layout: Layout,
    /// Whether the worker field is shown as Twitter's datacenter and worker.
    pub has_datacenters: bool,
}

impl ResolvedLayout {
    pub fn of(options: &Options) -> Self {
        let has_datacenters = match options.get("layout") {
            Some(name) => name == "snowflake",
            None => options.get("generator") == Some("snowflake"),
        };
        Self { layout: options.layout(), has_datacenters }
    }

    /// Names a worker as the layout shows it.
    pub fn worker(&self, worker_id: u64) -> String {
        match SnowflakeNode::from_worker_id(worker_id) {
            Ok(SnowflakeNode { datacenter_id, worker_id }) if self.has_datacenters => {
                format!("datacenter {datacenter_id}, worker {worker_id}")
            }
            _ => format!("worker id {worker_id}"),
        }
    }

    /// Fails if the layout cannot express the present time.
    pub fn check_now(&self) -> Result<(), Failure> {
        let Self { layout, .. } = self;
        match layout.tick_at(SystemClock.now()) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::Failed(format!(
                "layout {layout}: {error}; name another tick or epoch after the bits, as in \
                 --layout 41/10/12/ms/2020-01-01"
            ))),
        }
    }
}

impl LayoutArgs {
    pub fn resolve(&self) -> Result<ResolvedLayout, Failure> {
        let has_datacenters = self.layout.as_deref() == Some("snowflake");
        Ok(ResolvedLayout { layout: self.layout()?, has_datacenters })
    }

    pub fn layout(&self) -> Result<Layout, Failure> {
        read_layout(self.layout.as_deref().unwrap_or("uid")).map_err(Failure::Usage)
    }

    pub fn option(&self) -> Option<(&str, &str)> {
        Some(("layout", self.layout.as_deref()?))
    }
}
