//! The library as its users see it.

mod behaviour;
mod clock_driven;
mod closing;
mod errors;
mod extremes;
mod format;
#[cfg(all(feature = "metrics", feature = "serde"))]
mod glob_import;
mod honest_time;
mod import_circles;
mod last_ticks;
mod layering;
mod leases;
mod links;
mod near_texts;
mod own_ids;
mod per_thread;
mod properties;
mod reference_faults;
mod segments;
#[cfg(feature = "serde")]
mod serde_forms;
mod small_layouts;
mod start_ahead;
mod uniqueness;
mod worker_source;
