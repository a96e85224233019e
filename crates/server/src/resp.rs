//! Redis's protocol, RESP2 and RESP3.

mod commands;
mod glob;
mod ids;
mod keys;
pub mod parse;
mod reply;
mod session;
mod small_talk;
mod table;
mod transaction;

pub use self::session::Session;
