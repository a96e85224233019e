//! State that all connections of a server share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio_rustls::TlsAcceptor;

use crate::http_state::HttpState;
use crate::limits::{Budget, Limits};
use crate::listener::Protocol;
use crate::names::Names;
use crate::seat::Seats;
use crate::secret::Secret;
use crate::stats::ProtocolCounters;

pub struct Shared {
    pub names: Names,
    pub limits: Limits,
    pub password: Option<Secret>,
    pub seats: Arc<Seats>,
    pub budget: Budget,
    /// Whether only this host can reach the listeners.
    pub is_local: bool,
    pub start: Instant,
    /// For new connections.
    pub tls: RwLock<Option<TlsAcceptor>>,
    pub http: HttpState,
    pub counters: [ProtocolCounters; Protocol::COUNT],
}

impl Shared {
    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn counters(&self, protocol: Protocol) -> &ProtocolCounters {
        &self.counters[protocol as usize]
    }
}
