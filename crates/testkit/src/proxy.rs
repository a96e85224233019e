//! A TCP proxy with which a test can watch, delay and cut the traffic between a client and a server.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// Bytes of one read. Over loopback a short MySQL packet comes whole, so a hook may search it for a statement.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Connections are numbered from 0.
    pub connection: usize,
    pub direction: Direction,
    pub bytes: &'a [u8],
}

impl Chunk<'_> {
    /// Whether this goes to the client.
    pub fn answers(&self) -> bool {
        self.direction == Direction::ToClient
    }

    /// Whether this goes to the server and contains the text.
    pub fn asks(&self, text: &str) -> bool {
        !self.answers() && self.bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }

    /// Returns MySQL's command byte, which follows a packet's length and number.
    fn command(&self) -> Option<u8> {
        self.bytes.get(4).copied().filter(|_| !self.answers())
    }
}

/// What to do with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Forward,
    /// Forward it and all that follows after this time.
    Hold(Duration),
    /// Drop it.
    Swallow,
    /// Drop it, and send this back.
    Answer(&'static [u8]),
    /// Drop it, and end both sides of the connection.
    Cut,
}

/// Accepts connections on its own port and forwards them to another port of 127.0.0.1. If nothing listens there, the
/// client's connection ends at once. Drop ends all connections and waits for its threads, so a hook must not own the
/// proxy.
pub struct Proxy {
    port: u16,
    line: Arc<Line>,
    acceptor: Option<JoinHandle<()>>,
}

type Hook = Box<dyn Fn(Chunk<'_>) -> Verdict + Send + Sync>;

/// State that the proxy's threads share.
struct Line {
    server: AtomicU16,
    hook: Hook,
    over: AtomicBool,
    /// Both ends of all connections. Their threads own them.
    ends: Mutex<Vec<Weak<TcpStream>>>,
}

impl Proxy {
    /// Creates a proxy that forwards everything.
    pub fn to(server: u16) -> Self {
        Self::with(server, |_| Verdict::Forward)
    }

    /// Creates a proxy that asks the hook about each chunk. Several threads may call the hook at once. While it runs,
    /// only its own direction of the connection waits.
    pub fn with(server: u16, hook: impl Fn(Chunk<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        // The standard library's backlog is 128. When a herd fills it, the kernel drops clients, which retry after
        // seconds. Leave that to the server's own backlog.
        SockRef::from(&listener).listen(4_096).expect("it listens already");
        let port = listener.local_addr().expect("it is bound").port();
        let (over, ends) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let server = AtomicU16::new(server);
        let line = Arc::new(Line { server, hook: Box::new(hook), over, ends });
        let acceptor = thread::spawn({
            let line = Arc::clone(&line);
            move || line.accept(&listener)
        });
        Self { port, line, acceptor: Some(acceptor) }
    }

    /// Creates a proxy that calls `act` once, when a client has sent a statement with this text and before the server
    /// gets it.
    pub fn before(server: u16, text: &str, act: impl FnOnce() + Send + 'static) -> Self {
        let (watch, act) = (Watch::new(text), once(act));
        Self::with(server, move |chunk| {
            if watch.executes(chunk) {
                act();
            }
            Verdict::Forward
        })
    }

    /// Creates a proxy that calls `act` once, when the server has executed a statement with this text and before the
    /// client gets the answer. `act` decides about the answer.
    pub fn after(server: u16, text: &str, act: impl FnOnce() -> Verdict + Send + 'static) -> Self {
        let (watch, act) = (Watch::new(text), once(act));
        Self::with(server, move |chunk| match watch.executed(chunk) {
            true => act().unwrap_or(Verdict::Forward),
            false => Verdict::Forward,
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to another server.
    pub fn redirect(&self, server: u16) {
        self.line.server.store(server, Ordering::SeqCst);
    }

    /// Ends all present connections. New ones are accepted.
    pub fn cut(&self) {
        self.line.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.over.store(true, Ordering::SeqCst);
        // Wake the acceptor, which then cuts all connections.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            let ended = acceptor.join();
            assert!(ended.is_ok() || thread::panicking(), "a thread of the proxy panicked");
        }
    }
}

impl Line {
    fn accept(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            for connection in 0.. {
                let Ok((client, _)) = listener.accept() else { break };
                if self.over.load(Ordering::SeqCst) {
                    break;
                }
                let server = self.server.load(Ordering::SeqCst);
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else {
                    continue;
                };
                let (client, server) = (Arc::new(client), Arc::new(server));
                self.note(&[&client, &server]);
                let ends = (Arc::clone(&client), Arc::clone(&server));
                scope.spawn(move || self.carry(connection, Direction::ToServer, &ends.0, &ends.1));
                scope.spawn(move || self.carry(connection, Direction::ToClient, &server, &client));
            }
            self.cut();
        });
    }

    /// Forwards one direction of a connection until its source or the hook ends it.
    fn carry(&self, connection: usize, direction: Direction, from: &TcpStream, to: &TcpStream) {
        let end = || [from, to].map(|end| end.shutdown(Shutdown::Both).ok());
        let (mut source, mut sink) = (from, to);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let bytes = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => &buffer[..length],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let chunk = Chunk { connection, direction, bytes };
            match panic::catch_unwind(AssertUnwindSafe(|| (self.hook)(chunk))) {
                Ok(Verdict::Forward) => {}
                Ok(Verdict::Hold(time)) => self.sleep(time),
                Ok(Verdict::Swallow) => continue,
                Ok(Verdict::Answer(bytes)) => {
                    let mut source = from;
                    if source.write_all(bytes).is_err() {
                        end();
                        break;
                    }
                    continue;
                }
                Ok(Verdict::Cut) => {
                    end();
                    break;
                }
                // End the connection, or the client would wait for this thread.
                Err(payload) => {
                    end();
                    panic::resume_unwind(payload);
                }
            }
            if sink.write_all(bytes).is_err() {
                end();
                break;
            }
        }
        to.shutdown(Shutdown::Write).ok();
    }

    fn note(&self, ends: &[&Arc<TcpStream>]) {
        let mut noted = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|end| end.strong_count() > 0);
        for end in ends {
            end.set_nodelay(true).ok();
            noted.push(Arc::downgrade(end));
        }
    }

    /// Sleeps for a time, but not beyond the proxy's end.
    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.over.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(end) = end.upgrade() {
                end.shutdown(Shutdown::Both).ok();
            }
        }
    }
}

/// Follows a statement on all connections. Its text comes in the command that executes it, or in one that prepares it;
/// then the connection's next execute command is its own.
struct Watch {
    text: String,
    prepared: Mutex<HashSet<usize>>,
    executing: Mutex<HashSet<usize>>,
}

impl Watch {
    const PREPARE: u8 = 0x16;
    const EXECUTE: u8 = 0x17;

    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), prepared: Mutex::default(), executing: Mutex::default() }
    }

    /// Whether this chunk makes the server execute the statement.
    fn executes(&self, chunk: Chunk<'_>) -> bool {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match chunk.command() {
            Some(Self::PREPARE) if chunk.asks(&self.text) => {
                prepared.insert(chunk.connection);
                false
            }
            Some(Self::EXECUTE) => prepared.remove(&chunk.connection),
            _ => chunk.asks(&self.text),
        }
    }

    /// Whether this chunk answers the statement.
    fn executed(&self, chunk: Chunk<'_>) -> bool {
        let executes = self.executes(chunk);
        let mut executing = self.executing.lock().unwrap_or_else(PoisonError::into_inner);
        if executes {
            executing.insert(chunk.connection);
        }
        chunk.answers() && executing.remove(&chunk.connection)
    }
}

/// Wraps a function so that further calls do nothing.
fn once<T>(act: impl FnOnce() -> T + Send) -> impl Fn() -> Option<T> + Send + Sync {
    let act = Mutex::new(Some(act));
    move || {
        let act = act.lock().unwrap_or_else(PoisonError::into_inner).take();
        act.map(|act| act())
    }
}
