//! What may make a server forget what it has confirmed.

use std::sync::{Arc, OnceLock};

/// A setting or an engine that may lose commits.
#[derive(Clone, Copy, Debug)]
pub enum Risk {
    Binlog,
    Log,
    Engine,
}

impl Risk {
    /// The server's variable; none for the engine of a table.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Binlog => "sync_binlog",
            Self::Log => "innodb_flush_log_at_trx_commit",
            Self::Engine => "",
        }
    }

    pub fn explain(self, value: &str) -> String {
        let name = self.variable();
        let with = if matches!(self, Self::Binlog) { " with the binary log on" } else { "" };
        format!(
            "{name} is {value}{with}: after a crash of its machine the server may have lost what it \
             confirmed, and ids come twice; set {name} = 1"
        )
    }
}

/// The risks of a server that were reported.
#[derive(Clone, Debug, Default)]
pub struct Reported(Arc<[OnceLock<()>; 3]>);

impl Reported {
    /// Whether this one was not reported before.
    pub fn is_news(&self, risk: Risk) -> bool {
        self.0[risk as usize].set(()).is_ok()
    }
}
