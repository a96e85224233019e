//! The thread that a session lives on: it has to answer the servers now and then, whatever else
//! the process does.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::problem::{Problem, Refusal};
use super::session::{Applicant, Claim, Mark, Past, Session};

/// What the thread is asked for, and where to send the answer.
enum Ask {
    Start(Past, SyncSender<Result<Claim, Problem>>),
    Recall(Past),
    Store(Mark, SyncSender<Result<(), Problem>>),
    Release(Mark, SyncSender<Result<(), Problem>>),
}

/// The way to the thread. When it is dropped, the thread ends its session, and then itself.
#[derive(Debug)]
pub struct SessionThread {
    asks: UnboundedSender<Ask>,
}

impl SessionThread {
    pub fn start(applicant: Applicant) -> Result<Self, Problem> {
        let failed = |error: std::io::Error| {
            Problem::Denied(format!(
                "the client did not start: {error}; is the process at its limits?"
            ))
        };
        let runtime = runtime().map_err(failed)?;
        let (asks, asked) = unbounded_channel();
        let session = Session::new(applicant);
        thread::Builder::new()
            .name("uidring-zookeeper".into())
            .spawn(move || {
                runtime.block_on(serve(session, asked));
                // A look-up of a host's name may still hang. It is left behind.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        Ok(Self { asks })
    }

    /// Claims a worker id in the registry.
    pub fn claim(&self, past: Past) -> Result<Claim, Problem> {
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Start(past, reply))?;
        // The session has deadlines of its own.
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Says what was done without the registry, before anything is stored.
    pub fn recall(&self, past: Past) -> Result<(), Problem> {
        self.ask(Ask::Recall(past))
    }

    /// Has the registry remember the mark.
    pub fn store(&self, mark: Mark) -> Result<Answer, Problem> {
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Store(mark, reply))?;
        Ok(Answer(answer))
    }

    /// Stores the last mark and ends the session.
    pub fn release(&self, mark: Mark) -> Result<Answer, Problem> {
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Release(mark, reply))?;
        Ok(Answer(answer))
    }

    fn ask(&self, ask: Ask) -> Result<(), Problem> {
        self.asks.send(ask).map_err(|_| gone())
    }
}

/// What becomes of an ask. It goes on whether or not it is waited for.
#[derive(Debug)]
pub struct Answer(Receiver<Result<(), Problem>>);

impl Answer {
    /// `None` if there is no answer by then.
    pub fn wait(&self, patience: Duration) -> Option<Result<(), Problem>> {
        match self.0.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(gone())),
        }
    }
}

/// A runtime for one thread. The client brings a thread of its own for its connections.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_time().build()
}

async fn serve(mut session: Session, mut asked: UnboundedReceiver<Ask>) {
    while let Some(mut ask) = asked.recv().await {
        // Who is not waited for any more has asked again since.
        while matches!(ask, Ask::Store(..))
            && let Ok(newer) = asked.try_recv()
        {
            ask = newer;
        }
        // Nobody may be there to hear the answer.
        match ask {
            Ask::Start(past, reply) => {
                session.set_past(past);
                let _ = reply.send(session.start().await);
            }
            Ask::Recall(past) => session.set_past(past),
            Ask::Store(mark, reply) => {
                let _ = reply.send(session.store(mark).await);
            }
            Ask::Release(mark, reply) => {
                let released = session.release(mark).await;
                session.leave().await;
                let _ = reply.send(released);
            }
        }
    }
    session.leave().await;
}

/// Its session has ended with it, and nobody looks after the name any more.
fn gone() -> Problem {
    Refusal::Nodes("the client has ended unexpectedly; start again".into()).into()
}
