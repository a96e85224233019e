//! The tree of real servers.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use uidring::adapter::{Moment, Monotonic, SystemMonotonic};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteResult};

use super::ZooKeeperServers;
use super::problem::Problem;
use super::tree::{Ensemble, Failure, Kind, Stat, Tree, Write, Written};

/// A session with the servers.
#[derive(Clone)]
pub struct LiveTree {
    client: Client,
    servers: ZooKeeperServers,
}

impl Ensemble for ZooKeeperServers {
    type Tree = LiveTree;

    fn moment(&self) -> Moment {
        SystemMonotonic.moment()
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn connect(&self) -> Result<LiveTree, Problem> {
        let limit = self.deadline();
        match timeout(limit, self.connector().connect(self.hosts())).await {
            Ok(client) => Ok(LiveTree { client: client?, servers: self.clone() }),
            Err(_) => Err(Problem::Away(format!(
                "no session within {limit:?}; are the servers running, and have they a quorum?"
            ))),
        }
    }

    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        timeout(limit, work).await.ok()
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

    async fn make_folder(&self, path: &str) -> Result<(), Problem> {
        let options = CreateMode::Persistent.with_acls(self.servers.acls());
        Ok(self.client.mkdir(path, &options).await?)
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Problem> {
        Ok(self.client.list_children(path).await?)
    }

    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Problem> {
        match self.client.get_data(path).await {
            Ok((data, stat)) => Ok(Some((data, stat.into()))),
            Err(Error::NoNode) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)> {
        // All are asked for before the first answer is awaited.
        let answers: Vec<_> = paths.iter().map(|path| self.client.get_data(path)).collect();
        let mut read = Vec::with_capacity(answers.len());
        for answer in answers {
            if let Ok((data, stat)) = answer.await {
                read.push((data, stat.into()));
            }
        }
        read
    }

    async fn write(&self, writes: &[Write<'_>]) -> Result<Vec<Written>, Failure> {
        let mut writer = self.client.new_multi_writer();
        for write in writes {
            match *write {
                Write::Create { path, data, kind } => {
                    let mode = match kind {
                        Kind::Lasting => CreateMode::Persistent,
                        Kind::Numbered => CreateMode::PersistentSequential,
                        Kind::Temporary => CreateMode::Ephemeral,
                    };
                    let options = mode.with_acls(self.servers.acls());
                    writer.add_create(path, data.as_bytes(), &options)?;
                }
                Write::Set { path, data, version } => {
                    writer.add_set_data(path, data.as_bytes(), Some(version))?;
                }
                Write::Delete { path } => writer.add_delete(path, None)?,
            }
        }
        let written = writer.commit().await.map_err(Error::from)?;
        Ok(written
            .into_iter()
            .map(|result| match result {
                MultiWriteResult::Create { .. } => Written::Created,
                MultiWriteResult::SetData { stat } => Written::Set(stat.version),
                _ => Written::Deleted,
            })
            .collect())
    }

    async fn changed(&self, path: &str) -> Result<(), Problem> {
        if let (Some(_), watcher) = self.client.check_and_watch_stat(path).await? {
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

impl From<zookeeper_client::Stat> for Stat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        Self {
            version: stat.version,
            written: stat.mzxid,
            written_at: stat.mtime,
            made_at: stat.ctime,
            owner: stat.ephemeral_owner,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoNode => Self::Missing,
            Error::NodeExists => Self::Exists,
            Error::BadVersion => Self::Changed,
            other => Self::Other(other.into()),
        }
    }
}
