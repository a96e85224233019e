//! The cost of starts: how often they connect and ask, for stores with a port.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::setting::{Setting, place};
use super::store::Place;
use crate::proxy::{Proxy, Verdict};

/// A route to the store that counts.
pub struct Counted {
    proxy: Option<Proxy>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: HashSet<usize>,
    requests: usize,
}

impl Counted {
    pub fn of(setting: &Setting) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let proxy = setting.site().port().map(|port| {
            let seen = Arc::clone(&seen);
            Proxy::with(port, move |chunk| {
                if !chunk.answers() {
                    let mut seen = seen.lock().expect("whole");
                    seen.connections.insert(chunk.connection);
                    seen.requests += 1;
                }
                Verdict::Forward
            })
        });
        Self { proxy, seen }
    }

    /// Starts counting from 0.
    pub fn begin(&self) {
        *self.seen.lock().expect("whole") = Seen::default();
    }

    /// Returns the place of a start on another host, on this route.
    pub fn place(&self, setting: &Setting) -> Place {
        match &self.proxy {
            Some(proxy) => place(setting.site().address_at(proxy.port())),
            None => setting.place(),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { connections, requests } = &*self.seen.lock().expect("whole");
        match &self.proxy {
            Some(_) => write!(f, "{} connections, {requests} requests", connections.len()),
            None => f.write_str("the store cannot tell what it cost"),
        }
    }
}
