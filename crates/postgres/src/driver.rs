//! A connection of the driver's, and what the server says beside its answers.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket};

/// What the warning says by which a server confirms a commit that no standby has confirmed: who waited
/// for the standby was cancelled, and the commit counts as done.
const NOT_REPLICATED: &str = "might not have been replicated";

/// An open connection and the task that drives it.
pub struct Raw {
    pub client: Client,
    task: JoinHandle<()>,
    /// Why the task has ended: what the requests get says only that it has.
    ended: oneshot::Receiver<Error>,
    not_replicated: Arc<OnceLock<()>>,
}

impl Raw {
    pub async fn connect<T>(config: &Config, tls: T) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, mut connection) = config.connect(tls).await?;
        let (sender, ended) = oneshot::channel();
        let not_replicated = Arc::new(OnceLock::new());
        let seen = Arc::clone(&not_replicated);
        let task = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => {
                        let texts = [Some(notice.message()), notice.detail()];
                        if texts.iter().flatten().any(|text| text.contains(NOT_REPLICATED)) {
                            let _ = seen.set(());
                        }
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let _ = sender.send(error);
                        break;
                    }
                }
            }
        });
        Ok(Self { client, task, ended, not_replicated })
    }

    /// Whether the server has confirmed a commit that its standbys may lack.
    pub fn may_lack_a_commit(&self) -> bool {
        self.not_replicated.get().is_some()
    }

    /// Returns why a request has failed.
    pub fn cause(&mut self, error: Error) -> Error {
        if error.is_closed() { self.ended.try_recv().unwrap_or(error) } else { error }
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        drop(self.client);
        let _ = self.task.await;
    }
}
