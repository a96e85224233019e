//! The library as its users see it.

mod behaviour;
mod clock_driven;
mod closing;
mod honest_time;
mod import_circles;
mod last_ticks;
mod layering;
mod leases;
mod own_ids;
mod per_thread;
mod properties;
mod reference_faults;
mod segments;
mod uniqueness;
mod worker_source;
