//! What programs may hold while they catch panics: all generators and errors of all crates.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::sync::Arc;

use uidring::clock::{Clock, ManualClock};
use uidring::ring::{Producer, PutError, RingBuffer};
use uidring::segment::{LoadError, PushError, SegmentChain, SegmentError, SegmentHandle};
use uidring::worker::RenewError;
use uidring::*;
use uidring_client::{Client, ClientError};
use uidring_mysql::MySqlError;
use uidring_postgres::PostgresError;
use uidring_server::{IssueError, ServeError, TlsError};
use uidring_sqlite::SqliteError;
use uidring_store::TableError;
use uidring_zookeeper::ZooKeeperError;

const fn can_be_used_after_a_panic<T: UnwindSafe + RefUnwindSafe>() {}

const fn generators() {
    can_be_used_after_a_panic::<CachedUidGenerator>();
    can_be_used_after_a_panic::<LocalGenerator<&CachedUidGenerator>>();
    can_be_used_after_a_panic::<LocalGenerator<Arc<CachedUidGenerator>>>();
    can_be_used_after_a_panic::<LocalGenerator<Rc<CachedUidGenerator>>>();
    can_be_used_after_a_panic::<LocalGenerator<Box<CachedUidGenerator>>>();
    can_be_used_after_a_panic::<PerThreadGenerator<&CachedUidGenerator>>();
    can_be_used_after_a_panic::<PerThreadGenerator<Arc<CachedUidGenerator>>>();
    can_be_used_after_a_panic::<ClockedUidGenerator>();
    can_be_used_after_a_panic::<ClockedUidGenerator>();
    can_be_used_after_a_panic::<ClockedUidGenerator>();
    can_be_used_after_a_panic::<ClockedUidGenerator<ManualClock>>();
    can_be_used_after_a_panic::<ClockedUidGenerator<Arc<dyn Clock>>>();
    can_be_used_after_a_panic::<SegmentGenerator>();
    can_be_used_after_a_panic::<SegmentHandle>();
    can_be_used_after_a_panic::<SegmentChain>();
    can_be_used_after_a_panic::<RingBuffer>();
    can_be_used_after_a_panic::<Producer>();
    can_be_used_after_a_panic::<Client>();
}

const fn errors() {
    can_be_used_after_a_panic::<Error>();
    can_be_used_after_a_panic::<TakeError>();
    can_be_used_after_a_panic::<FillError>();
    can_be_used_after_a_panic::<FillError<SegmentError>>();
    can_be_used_after_a_panic::<ParseTimeError>();
    can_be_used_after_a_panic::<ParseUidError>();
    can_be_used_after_a_panic::<TimeRangeError>();
    can_be_used_after_a_panic::<UidRangeError>();
    can_be_used_after_a_panic::<StoreError>();
    can_be_used_after_a_panic::<PutError>();
    can_be_used_after_a_panic::<PushError>();
    can_be_used_after_a_panic::<LoadError>();
    can_be_used_after_a_panic::<SegmentError>();
    can_be_used_after_a_panic::<RenewError>();
    can_be_used_after_a_panic::<TableError>();
    can_be_used_after_a_panic::<SqliteError>();
    can_be_used_after_a_panic::<MySqlError>();
    can_be_used_after_a_panic::<PostgresError>();
    can_be_used_after_a_panic::<ZooKeeperError>();
    can_be_used_after_a_panic::<ClientError>();
    can_be_used_after_a_panic::<IssueError>();
    can_be_used_after_a_panic::<ServeError>();
    can_be_used_after_a_panic::<TlsError>();
}

const _: () = {
    generators();
    errors();
};
