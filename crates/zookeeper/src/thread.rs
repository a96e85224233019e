//! The thread that a session lives on: it has to answer the servers now and then, whatever else
//! the process does.

use std::future::{self, Future};
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::ZooKeeperServers;
use super::link::Link;
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
    /// What is not answered yet.
    pending: Option<Answer>,
    /// Whether the name is being given back. Nothing is stored any more: in an outage that would be
    /// done when it is over, and the name taken from whoever has followed.
    is_ending: watch::Sender<bool>,
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
        let (is_ending, ending) = watch::channel(false);
        let session = Session::new(applicant.registry.servers.clone(), applicant);
        thread::Builder::new()
            .name("uidring-zookeeper".into())
            .spawn(move || {
                runtime.block_on(serve(session, asked, ending));
                // A look-up of a host's name may still hang. It is left behind.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        Ok(Self { asks, pending: None, is_ending })
    }

    fn ask(&self, ask: Ask) -> Result<(), Problem> {
        self.asks.send(ask).map_err(|_| gone())
    }
}

impl Link for SessionThread {
    fn claim(&mut self, past: Past) -> Result<Claim, Problem> {
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Start(past, reply))?;
        // The session has deadlines of its own.
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }

    fn recall(&mut self, past: Past) -> Result<(), Problem> {
        self.ask(Ask::Recall(past))
    }

    fn store(&mut self, mark: Mark, mut patience: Duration) -> Result<(), Problem> {
        if let Some(pending) = self.pending.take() {
            match pending.wait(Duration::ZERO) {
                None if patience.is_zero() => {
                    self.pending = Some(pending);
                    return Err(no_answer(patience));
                }
                Some(Err(Problem::Refused(refusal))) => return Err(refusal.into()),
                // It is there again.
                Some(Ok(())) => patience = patience.max(Duration::from_secs(1)),
                None | Some(Err(_)) => {}
            }
        }
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Store(mark, reply))?;
        let answer = Answer(answer);
        answer.wait(patience).unwrap_or_else(|| {
            self.pending = Some(answer);
            Err(no_answer(patience))
        })
    }

    fn release(&mut self, mark: Mark, patience: Duration) -> Result<(), Problem> {
        self.is_ending.send_replace(true);
        let (reply, answer) = sync_channel(1);
        self.ask(Ask::Release(mark, reply))?;
        Answer(answer).wait(patience).unwrap_or_else(|| Err(no_answer(patience)))
    }
}

/// What becomes of an ask. It goes on whether or not it is waited for.
#[derive(Debug)]
struct Answer(Receiver<Result<(), Problem>>);

impl Answer {
    /// `None` if there is no answer by then.
    fn wait(&self, patience: Duration) -> Option<Result<(), Problem>> {
        match self.0.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(gone())),
        }
    }
}

fn no_answer(within: Duration) -> Problem {
    Problem::Away(if within.is_zero() {
        "no answer yet".into()
    } else {
        format!("no answer within {within:?}")
    })
}

/// A runtime for one thread. The client brings a thread of its own for its connections.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_time().build()
}

async fn serve(
    mut session: Session<ZooKeeperServers>,
    mut asked: UnboundedReceiver<Ask>,
    mut ending: watch::Receiver<bool>,
) {
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
                // An error says that the other end is gone.
                let over = async { _ = ending.wait_for(|is_ending| *is_ending).await };
                let stored = unless(over, session.store(mark)).await;
                let _ = reply.send(stored.unwrap_or_else(|| Err(no_answer(Duration::ZERO))));
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

/// The work's result; `None` if the other thing comes first, and the work is left where it stands.
async fn unless<T>(over: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut over, mut work) = (pin!(over), pin!(work));
    future::poll_fn(|context| match over.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// Its session has ended with it, and nobody looks after the name any more.
fn gone() -> Problem {
    Refusal::Nodes("the client has ended unexpectedly; start again".into()).into()
}
