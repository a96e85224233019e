//! The thread of a session. It must answer the servers regularly, whatever else the process does.

use std::future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use uidring::StoreErrorKind;

use super::claim::Before;
use super::entry::{Applicant, Mark};
use super::error::ZooKeeperError;
use super::registry::Registry;
use super::session::{Claim, Session, SessionHandle};

/// What the thread should do, and where to reply.
enum Request {
    Start(Option<String>, SyncSender<Result<Claim, ZooKeeperError>>),
    Recall(Before),
    Store(Mark, SyncSender<Stored>),
    Release(Mark, SyncSender<Stored>),
}

type Stored = Result<(), ZooKeeperError>;

/// A handle to the thread. Dropping it ends the session, then the thread.
#[derive(Debug)]
pub struct SessionThread {
    registry: Registry,
    requests: UnboundedSender<Request>,
    /// A reply that came too late.
    pending: Option<Receiver<Stored>>,
    /// Whether the name is being given back. Nothing is stored after that: a store delayed by an outage could take the
    /// name from a successor.
    is_ending: watch::Sender<bool>,
}

impl SessionThread {
    pub fn start(applicant: Applicant) -> Result<Self, ZooKeeperError> {
        let registry = applicant.registry.clone();
        let (requests, receiver) = unbounded_channel();
        let (is_ending, ending) = watch::channel(false);
        let session = Session::new(registry.clone(), applicant);
        spawn(&registry, move || serve(session, receiver, ending))?;
        Ok(Self { registry, requests, pending: None, is_ending })
    }

    fn send(&self, request: Request) -> Result<(), ZooKeeperError> {
        self.requests.send(request).map_err(|_| self.registry.client_ended())
    }

    /// Returns `None` if there is no reply in time. The work goes on.
    fn wait(&self, reply: &Receiver<Stored>, patience: Duration) -> Option<Stored> {
        match reply.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => None,
            reply => Some(reply.unwrap_or_else(|_| Err(self.registry.client_ended()))),
        }
    }
}

impl SessionHandle for SessionThread {
    fn claim(&mut self, previous: Option<String>) -> Result<Claim, ZooKeeperError> {
        let (sender, reply) = sync_channel(1);
        self.send(Request::Start(previous, sender))?;
        // The session has its own deadlines.
        reply.recv().unwrap_or_else(|_| Err(self.registry.client_ended()))
    }

    fn recall(&mut self, before: Before) -> Result<(), ZooKeeperError> {
        self.send(Request::Recall(before))
    }

    fn store(&mut self, mark: Mark, mut patience: Duration) -> Result<(), ZooKeeperError> {
        if let Some(pending) = self.pending.take() {
            match self.wait(&pending, Duration::ZERO) {
                None if patience.is_zero() => {
                    self.pending = Some(pending);
                    return Err(self.registry.unreachable("no answer yet"));
                }
                Some(Err(error)) if error.is_final() => return Err(error),
                // The registry is back.
                Some(Ok(())) => patience = patience.max(Duration::from_secs(1)),
                None | Some(Err(_)) => {}
            }
        }
        let (sender, reply) = sync_channel(1);
        self.send(Request::Store(mark, sender))?;
        self.wait(&reply, patience).unwrap_or_else(|| {
            self.pending = Some(reply);
            Err(self.registry.no_answer(patience))
        })
    }

    fn release(&mut self, mark: Mark, patience: Duration) -> Result<(), ZooKeeperError> {
        self.is_ending.send_replace(true);
        let (sender, reply) = sync_channel(1);
        self.send(Request::Release(mark, sender))?;
        self.wait(&reply, patience).unwrap_or_else(|| Err(self.registry.no_answer(patience)))
    }
}

/// Runs `work` on a thread of its own, so that the caller may be within an async runtime. The client starts another
/// thread for its connections.
pub fn spawn<T: Send + 'static, W: Future<Output = T>>(
    registry: &Registry,
    work: impl FnOnce() -> W + Send + 'static,
) -> Result<JoinHandle<T>, ZooKeeperError> {
    let not_started = |error| {
        let problem = "its client did not start; is the process at its limits?";
        registry.caused(StoreErrorKind::Denied, problem, error)
    };
    let runtime = Builder::new_current_thread().enable_time().build().map_err(not_started)?;
    let runtime = Background(Some(runtime));
    let run = move || match &{ runtime }.0 {
        Some(runtime) => runtime.block_on(work()),
        None => unreachable!("only its drop takes the runtime"),
    };
    thread::Builder::new().name("uidring-zookeeper".into()).spawn(run).map_err(not_started)
}

/// A runtime whose drop does not wait: a host name look-up may hang, and the caller may be within another runtime.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(
    mut session: Session<Registry>,
    mut requests: UnboundedReceiver<Request>,
    mut ending: watch::Receiver<bool>,
) {
    while let Some(mut request) = requests.recv().await {
        // A newer request means that nobody waits for this one.
        while matches!(request, Request::Store(..))
            && let Ok(newer) = requests.try_recv()
        {
            request = newer;
        }
        // The receiver of a reply may be gone.
        match request {
            Request::Start(previous, reply) => {
                let _ = reply.send(session.start(previous).await);
            }
            Request::Recall(before) => session.recall(before),
            Request::Store(mark, reply) => {
                // An error means that the handle is gone.
                let over = async { _ = ending.wait_for(|is_ending| *is_ending).await };
                // Otherwise nobody waits for a reply any more.
                if let Some(stored) = unless(over, session.store(mark)).await {
                    let _ = reply.send(stored);
                }
            }
            Request::Release(mark, reply) => {
                let released = session.release(mark).await;
                session.leave().await;
                let _ = reply.send(released);
            }
        }
    }
    session.leave().await;
}

/// Returns the result of `work`, or `None` if `over` completes first; `work` then stops where it is.
pub async fn unless<T>(over: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut over, mut work) = (pin!(over), pin!(work));
    future::poll_fn(|context| match over.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}
