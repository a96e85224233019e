//! Tables `UIDRING_LEASE`, with a row for each leased worker id: their operations, and code that stores share.

mod acquire;
mod flaw;
mod options;
mod rows;
mod table;

pub use self::acquire::{AcquireRequest, Acquired, Denial, LeaseStore, acquire};
pub use self::flaw::{flaw, is_sound};
pub use self::options::LeaseOptions;
pub use self::rows::{Horizon, LeasedRow, RowLease, RowStore, other_server, unreadable};
pub use self::table::{
    LeaseRow, LeaseState, LeaseTable, changed_row, flaw_of, issued_until, readable,
};
pub use crate::fitting::Shortage;
