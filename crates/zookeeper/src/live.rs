//! The tree of nodes on real servers.

use std::time::Duration;

use tokio::time::timeout;
use uidring::adapter::{Moment, Monotonic, SystemMonotonic};
use uidring_store::warn_once;
use zookeeper_client::{Client, Error, MultiWriteError, MultiWriteResult};

use super::error::ZooKeeperError;
use super::registry::Registry;
use super::tree::{CreateMode, Ensemble, Failure, Stat, Tree, Write};

/// Rights in access lists.
const CREATE: &str = "create (c)";
const READ: &str = "read (r)";

#[derive(Clone)]
pub struct LiveTree {
    client: Client,
    registry: Registry,
}

impl Ensemble for Registry {
    type Tree = LiveTree;

    fn moment(&self) -> Moment {
        SystemMonotonic.moment()
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn connect(&self) -> Result<LiveTree, ZooKeeperError> {
        #[cfg(feature = "tls")]
        if self.servers.has_tls {
            let client = super::handshake::connect(self).await?;
            return Ok(LiveTree { client, registry: self.clone() });
        }
        if let Some(warning) = self.servers.password(true).warning() {
            warn_once(format!("ZooKeeper {}: {warning}", self.servers));
        }
        let connecting = self.servers.connector().connect(&self.servers.text);
        match timeout(self.servers.connect_deadline, connecting).await {
            Ok(Err(error)) if error != Error::Timeout => Err(self.failed(error)),
            Ok(Ok(client)) => Ok(LiveTree { client, registry: self.clone() }),
            _ => Err(self.no_session(
                "are these ports without TLS (with it, write tls=verify in the URL, or tls:// before each server in Rust)",
            )),
        }
    }

    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        timeout(limit, work).await.ok()
    }
}

impl LiveTree {
    /// The error of a request that needs this right on a node.
    fn refused(&self, right: &'static str, node: &str, error: Error) -> ZooKeeperError {
        match error {
            Error::NoAuth => {
                let (registry, node) = (self.registry.to_string(), node.into());
                ZooKeeperError::NotAllowed { registry, node, right, source: error }
            }
            other => self.registry.failed(other),
        }
    }

    fn commit_failed(&self, writes: &[Write], error: MultiWriteError) -> Failure {
        let (index, error) = match error {
            MultiWriteError::OperationFailed { index, source } => (index, source),
            MultiWriteError::RequestFailed { source } => (0, source),
        };
        match (error, writes.get(index)) {
            (Error::NoNode, _) => Failure::Missing,
            (Error::NodeExists, _) => Failure::Exists,
            (Error::BadVersion, _) => Failure::Changed,
            (error, Some(write)) => {
                let (right, node) = write.needs();
                Failure::Other(self.refused(right, node, error))
            }
            (error, None) => Failure::Other(self.registry.failed(error)),
        }
    }
}

impl Write {
    /// The right that it needs, and on which node.
    fn needs(&self) -> (&'static str, &str) {
        match self {
            Self::Create { path, .. } => (CREATE, parent(path)),
            Self::Delete { path } => ("delete (d)", parent(path)),
            Self::Set { path, .. } => ("write (w)", path),
            Self::Check { path, .. } => (READ, path),
        }
    }
}

impl Tree for LiveTree {
    fn session(&self) -> i64 {
        self.client.session_id().0
    }

    fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    fn is_over(&self) -> bool {
        self.client.state().is_terminated()
    }

    async fn make_folder(&self, path: &str) -> Result<(), ZooKeeperError> {
        // A user without the right to create the folder does not need it if it exists.
        let exists =
            self.client.check_stat(path).await.map_err(|error| self.registry.failed(error))?;
        if exists.is_some() {
            return Ok(());
        }
        let servers = &self.registry.servers;
        let acls = if parent(path) == "/" { servers.shared_acls() } else { servers.acls() };
        match self.client.create(path, &[], &CreateMode::Persistent.with_acls(acls)).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(self.refused(CREATE, parent(path), error)),
        }
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError> {
        let names = self.client.list_children(path).await;
        names.map_err(|error| self.refused(READ, path, error))
    }

    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ZooKeeperError> {
        match self.client.get_data(path).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(self.refused(READ, path, error)),
        }
    }

    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)> {
        // Send all requests before waiting for the first answer.
        let answers: Vec<_> = paths.iter().map(|path| self.client.get_data(path)).collect();
        let mut read = Vec::new();
        for answer in answers {
            read.extend(answer.await);
        }
        read
    }

    async fn write(&self, writes: Vec<Write>) -> Result<Vec<i32>, Failure> {
        let mut writer = self.client.new_multi_writer();
        for write in &writes {
            let added = match write {
                Write::Create { path, data, mode } => {
                    let options = mode.with_acls(self.registry.servers.acls());
                    writer.add_create(path, data.as_bytes(), &options)
                }
                Write::Set { path, data, version } => {
                    writer.add_set_data(path, data.as_bytes(), Some(*version))
                }
                Write::Delete { path } => writer.add_delete(path, None),
                Write::Check { path, version } => writer.add_check_version(path, *version),
            };
            added.map_err(|error| Failure::Other(self.registry.failed(error)))?;
        }
        let results = writer.commit().await.map_err(|error| self.commit_failed(&writes, error))?;
        let versions = results.into_iter().filter_map(|result| match result {
            // The answer lacks a new node's version, which is 0.
            MultiWriteResult::Create { .. } => Some(0),
            MultiWriteResult::SetData { stat } => Some(stat.version),
            _ => None,
        });
        Ok(versions.collect())
    }

    async fn changed(&self, path: &str) -> Result<(), ZooKeeperError> {
        let watch = self.client.check_and_watch_stat(path).await;
        if let (Some(_), watcher) = watch.map_err(|error| self.registry.failed(error))? {
            watcher.changed().await;
        }
        Ok(())
    }

    async fn close(self) {
        const GOODBYE: Duration = Duration::from_millis(500);
        let mut state = self.client.state_watcher();
        drop(self);
        let closed = async { while !state.changed().await.is_terminated() {} };
        let _ = timeout(GOODBYE, closed).await;
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() => parent,
        _ => "/",
    }
}
