//! What generators ask stores for.

use std::time::Duration;

use uidring::{Layout, WorkerRequest};

/// What a `CachedUidGenerator` with this layout and default options asks for.
pub fn request(layout: Layout) -> WorkerRequest {
    WorkerRequest::new(layout).with_max_ahead(Duration::from_secs(600))
}
