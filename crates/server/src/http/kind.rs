//! Content types.

pub const TEXT: &str = "text/plain; charset=utf-8";
pub const JSON: &str = "application/json";
pub const NDJSON: &str = "application/x-ndjson";
pub const BINARY: &str = "application/octet-stream";
pub const HTML: &str = "text/html; charset=utf-8";
pub const EVENTS: &str = "text/event-stream";
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
