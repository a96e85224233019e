//! A connection to a server that can be cut and restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uidring_testkit::proxy::{Proxy, Verdict};
use uidring_testkit::zookeeper::ZooKeeper;

/// A connection to the server that can be cut and restored.
pub struct Line {
    proxy: Proxy,
    is_cut: Arc<AtomicBool>,
}

impl Line {
    pub fn to(server: &ZooKeeper) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let proxy = Proxy::with(server.port(), move |_| match cut.load(Ordering::SeqCst) {
            true => Verdict::Cut,
            false => Verdict::Forward,
        });
        Self { proxy, is_cut }
    }

    pub fn hosts(&self) -> String {
        format!("127.0.0.1:{}", self.proxy.port())
    }

    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.proxy.cut();
    }

    pub fn restore(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}
