//! A server: threads that accept and answer until it is stopped.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::http_state::HttpState;
use crate::limits::{Budget, Limits};
use crate::listener::{Ends, Listener, Protocol};
use crate::names::Names;
use crate::seat::{Place, SWEEP, Seated, Seats};
use crate::secret::Secret;
use crate::shared::Shared;
use crate::stats::ProtocolStats;
use crate::tls::{self, TlsError};
use crate::wire::{self, Stream};
use crate::{batch, http, resp, thrift};

/// A server that has not started yet.
#[derive(Default)]
pub struct Server {
    listeners: Vec<Listener>,
    limits: Limits,
    threads: usize,
    password: Option<String>,
    tls: Option<TlsAcceptor>,
}

impl Server {
    /// Creates a server without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a listener.
    #[must_use]
    pub fn listen(mut self, listener: Listener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how many threads serve, at least one. The default is one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the password that clients must give.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Enables TLS for TCP listeners, with a certificate chain and its private key in PEM.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if they cannot be used.
    pub fn tls(mut self, certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        self.tls = Some(tls::acceptor(certificates, key)?);
        Ok(self)
    }

    /// Starts to serve ids of these names.
    ///
    /// # Errors
    ///
    /// [`ServeError`] if the system refuses a thread or a listener.
    pub fn start(self, names: Names) -> Result<Running, ServeError> {
        let shared = Arc::new(Shared {
            seats: Arc::new(Seats::new(&self.limits)),
            budget: Budget::new(self.limits.batch),
            is_local: self.listeners.iter().all(Listener::is_local),
            names,
            http: HttpState::new(&self.limits),
            limits: self.limits,
            password: self.password.map(Secret::new),
            tls: RwLock::new(self.tls),
            start: Instant::now(),
            counters: Default::default(),
        });
        let (stop, _) = watch::channel(());
        let mut running = Running { shared, stop: Some(stop), threads: Vec::new() };
        for number in 0..self.threads.max(1) {
            running.add_thread(number, &self.listeners)?;
        }
        Ok(running)
    }
}

/// A running server. Dropping it stops it, without waiting for connections.
pub struct Running {
    shared: Arc<Shared>,
    /// Dropped to stop.
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    fn add_thread(&mut self, number: usize, listeners: &[Listener]) -> Result<(), ServeError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            // For pages about all names, one at a time, and for shorter work.
            .max_blocking_threads(2)
            .thread_name(format!("uidring-pages-{number}"))
            .build();
        let runtime = runtime.map_err(ServeError::Thread)?;
        let stop = self.stop.as_ref().expect("it runs").subscribe();
        let shared = Arc::clone(&self.shared);
        // Register the sockets here, so that the caller sees failures.
        let guard = runtime.enter();
        let mut accepting = Vec::new();
        for listener in listeners {
            let listening = Listening::new(listener).map_err(|cause| ServeError::Listener {
                address: listener.address().to_owned(),
                cause,
            })?;
            let (protocol, shared) = (listener.protocol(), Arc::clone(&shared));
            accepting.push(tokio::spawn(accept_all(listening, protocol, shared, stop.clone())));
        }
        if number == 0 {
            tokio::spawn(sweep(Arc::clone(&shared)));
        }
        drop(guard);
        let serve = move || {
            runtime.block_on(async move {
                for accepting in accepting {
                    // They end when the server stops.
                    let _ = accepting.await;
                }
                // Every thread waits for all connections, including its own.
                while shared.seats.count() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        };
        let thread = thread::Builder::new().name(format!("uidring-serve-{number}")).spawn(serve);
        self.threads.push(thread.map_err(ServeError::Thread)?);
        Ok(())
    }

    /// Accepts no more connections, and waits for at most `patience` until the existing ones have answered what was
    /// asked. Returns how many are still open then.
    pub fn stop(mut self, patience: Duration) -> usize {
        let begin = Instant::now();
        self.end();
        while self.threads.iter().any(|thread| !thread.is_finished()) && begin.elapsed() < patience
        {
            thread::sleep(Duration::from_millis(2));
        }
        self.shared.seats.count()
    }

    fn end(&mut self) {
        // Connections accepted after this find the server draining.
        self.shared.seats.drain();
        self.stop = None;
    }

    /// Replaces the password. Connections that gave the old one stay trusted. Does nothing if the server has no
    /// password.
    pub fn replace_password(&self, password: impl Into<String>) {
        if let Some(secret) = &self.shared.password {
            secret.replace(password.into());
        }
    }

    /// Replaces certificate and key for new connections, as in [`Server::tls`].
    ///
    /// # Errors
    ///
    /// [`TlsError`] if they cannot be used. The old ones stay.
    pub fn replace_tls(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let acceptor = tls::acceptor(certificates, key)?;
        *self.shared.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(acceptor);
        Ok(())
    }

    /// Returns the names that are served.
    pub fn names(&self) -> &Names {
        &self.shared.names
    }

    /// Returns what connections of a protocol have done.
    pub fn stats(&self, protocol: Protocol) -> ProtocolStats {
        self.shared.counters(protocol).stats()
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.shared.seats.count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        shared.seats.sweep(shared.start.elapsed());
        shared.names.look_at_leads();
    }
}

enum Listening {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

/// The longest queue to drain. A stopping server does not accept connections forever.
const BACKLOG: usize = 4096;

impl Listening {
    fn new(listener: &Listener) -> io::Result<Self> {
        let socket = listener.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        // Allow the longest queue of unaccepted connections that the system permits. The standard library asks for a
        // short one.
        socket.listen(i32::MAX)?;
        #[cfg(unix)]
        if listener.is_unix {
            return Ok(Self::Unix(UnixListener::from_std(socket.into())?));
        }
        Ok(Self::Tcp(TcpListener::from_std(socket.into())?))
    }

    /// Accepts a connection.
    async fn accept(&self, protocol: Protocol, shared: &Arc<Shared>) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => seat_tcp(socket.accept().await?.0, protocol, shared)?,
            #[cfg(unix)]
            Self::Unix(socket) => seat(socket.accept().await?.0, protocol, None, None, shared),
        }
        Ok(())
    }

    /// Accepts the connections in the queue, without the runtime's events.
    fn accept_the_rest(&self, protocol: Protocol, shared: &Arc<Shared>) -> io::Result<()> {
        let socket = match self {
            Self::Tcp(socket) => SockRef::from(socket),
            #[cfg(unix)]
            Self::Unix(socket) => SockRef::from(socket),
        };
        for _ in 0..BACKLOG {
            let (stream, _) = socket.accept()?;
            stream.set_nonblocking(true)?;
            match self {
                Self::Tcp(_) => seat_tcp(TcpStream::from_std(stream.into())?, protocol, shared)?,
                #[cfg(unix)]
                Self::Unix(_) => {
                    seat(UnixStream::from_std(stream.into())?, protocol, None, None, shared);
                }
            }
        }
        Ok(())
    }
}

async fn accept_all(
    listening: Listening,
    protocol: Protocol,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listening.accept(protocol, &shared) => accepted,
            // Fails once the sender is gone.
            _ = stop.changed() => break,
        };
        if let Err(error) = accepted {
            tracing::warn!(%protocol, %error, "a connection could not be accepted");
            // There may be too many open files. Wait until some are closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // Answer those that have already connected.
    let _ = listening.accept_the_rest(protocol, &shared);
}

fn seat_tcp(stream: TcpStream, protocol: Protocol, shared: &Arc<Shared>) -> io::Result<()> {
    // Answers are written whole, and must not wait for more.
    stream.set_nodelay(true)?;
    let ends = match protocol {
        Protocol::Redis => Some(Ends { here: stream.local_addr()?, there: stream.peer_addr()? }),
        _ => None,
    };
    seat(stream, protocol, ends, shared.tls(), shared);
    Ok(())
}

/// Serves a connection in its own task, or tells it that there is no room.
fn seat(
    stream: impl Stream,
    protocol: Protocol,
    ends: Option<Ends>,
    tls: Option<TlsAcceptor>,
    shared: &Arc<Shared>,
) {
    let counters = shared.counters(protocol);
    match shared.seats.sit(stream) {
        Ok(stream) => {
            counters.connected();
            tokio::spawn(greet(stream, protocol, ends, tls, Arc::clone(shared)));
        }
        Err(stream) => {
            counters.refused();
            if tls.is_none() {
                tokio::spawn(refuse(stream, protocol));
            }
        }
    }
}

async fn greet(
    stream: Seated<impl Stream>,
    protocol: Protocol,
    ends: Option<Ends>,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) {
    let place = Arc::clone(stream.place());
    let Some(tls) = tls else { return serve(stream, protocol, ends, place, shared).await };
    // Boxed, to keep it out of other connections' futures. The timeout covers the whole handshake.
    let encrypted = async {
        match tokio::time::timeout(shared.limits.slow, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                place.is_between_requests();
                serve(stream, protocol, ends, place, shared).await;
            }
            Ok(Err(error)) => tracing::debug!(%protocol, %error, "a client spoke no TLS"),
            Err(_) => tracing::debug!(%protocol, "a client did not end its greeting"),
        }
    };
    Box::pin(encrypted).await;
}

async fn serve(
    stream: impl Stream,
    protocol: Protocol,
    ends: Option<Ends>,
    place: Arc<Place>,
    shared: Arc<Shared>,
) {
    match protocol {
        Protocol::Redis => {
            wire::serve(stream, &place, &mut resp::Session::new(&shared, ends)).await;
        }
        Protocol::Http => http::serve(stream, &place, &shared).await,
        Protocol::Thrift => wire::serve(stream, &place, &mut thrift::Session::new(&shared)).await,
        Protocol::Batch => wire::serve(stream, &place, &mut batch::Session::new(&shared)).await,
    }
}

/// Tells the client that there is no room, but does not wait if it does not read.
async fn refuse(mut stream: impl Stream, protocol: Protocol) {
    let text: Vec<u8> = match protocol {
        Protocol::Redis => "-ERR max number of clients reached\r\n".into(),
        Protocol::Http => http::refusal().into(),
        Protocol::Thrift => thrift::refusal(),
        Protocol::Batch => batch::refusal(),
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(&text)).await;
}
