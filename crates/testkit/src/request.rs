//! What generators request from stores.

use std::time::Duration;

use uidring::{Layout, WorkerRequest};

/// Returns the request of a `CachedUidGenerator` with this layout and default options.
pub fn request(layout: Layout) -> WorkerRequest {
    WorkerRequest::new(layout).with_max_ahead(Duration::from_secs(600))
}
