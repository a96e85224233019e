//! A connection of the driver, and the notices of its server.

use std::future::poll_fn;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket};

/// An open connection and the task that drives it.
pub struct Raw {
    pub client: Client,
    task: JoinHandle<()>,
    /// Why the task has ended. Requests report only that it has.
    ended: oneshot::Receiver<Error>,
    warning: watch::Sender<Option<String>>,
}

impl Raw {
    pub async fn connect<T>(config: &Config, tls: T) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, mut connection) = config.connect(tls).await?;
        let (sender, ended) = oneshot::channel();
        let warning = watch::Sender::default();
        let seen = warning.clone();
        let task = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) if is_warning(&notice) => {
                        let texts = [Some(notice.message()), notice.detail()];
                        let texts: Vec<_> = texts.into_iter().flatten().collect();
                        seen.send_replace(Some(texts.join("; ")));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let _ = sender.send(error);
                        break;
                    }
                }
            }
        });
        Ok(Self { client, task, ended, warning })
    }

    /// Forgets a warning that came before, for example at the login.
    pub fn forget_warning(&self) {
        self.warning.send_replace(None);
    }

    /// Returns the last warning since then, in the server's language.
    pub fn warning(&self) -> Option<String> {
        self.warning.borrow().clone()
    }

    /// Returns why a request has failed.
    pub fn cause(&mut self, error: Error) -> Error {
        if error.is_closed() { self.ended.try_recv().unwrap_or(error) } else { error }
    }

    /// Closes the connection cleanly.
    pub async fn close(self) {
        drop(self.client);
        let _ = self.task.await;
    }
}

/// Goes by the severity that is the same in all languages. Without a known one, a notice counts as a warning.
fn is_warning(notice: &DbError) -> bool {
    let harmless = [Severity::Debug, Severity::Info, Severity::Log, Severity::Notice];
    notice.parsed_severity().is_none_or(|severity| !harmless.contains(&severity))
}
