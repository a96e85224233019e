//! A connection's place in the server: whom the server tells to go, because it ends or the client is slow.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;

use crate::limits::Limits;

/// Why a connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Farewell {
    /// The server ends: what has arrived is answered.
    Draining = 1,
    /// Nothing was asked for too long.
    Idle = 2,
    /// A request was begun and not ended, or an answer not received.
    Slow = 3,
}

/// How often connections that wait for their clients are looked at.
pub const SWEEP: Duration = Duration::from_millis(500);

/// In 56 bits, which is enough for two million years.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> 8)
}

/// What a connection waits for.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Waits {
    /// For nothing of the client's: it works, or waits for ids.
    NotForClient = 0,
    ForRequest = 1,
    ForRestOfRequest = 2,
    ForReader = 3,
}

/// One connection as the server sees it.
#[derive(Debug, Default)]
struct Seat {
    /// A `Farewell`, or 0.
    told: AtomicU8,
    /// A `Waits` above the 56 bits of when it began to wait: for a request, or when that began.
    state: AtomicU64,
    waker: AtomicWaker,
}

/// The connections of a server.
#[derive(Debug)]
pub struct Seats {
    taken: Mutex<Taken>,
    limit: usize,
    idle: u64,
    slow: u64,
    /// Milliseconds since the server began, as of the last `sweep`.
    now: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    seats: Vec<Option<Arc<Seat>>>,
    free: Vec<usize>,
    count: usize,
    draining: bool,
}

impl Seats {
    pub fn new(limits: &Limits) -> Self {
        // A time may be as old as the last sweep.
        let millis = |time: Duration| millis(time.saturating_add(SWEEP));
        Self {
            taken: Mutex::default(),
            limit: limits.connections,
            idle: millis(limits.idle),
            slow: millis(limits.slow),
            now: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(|lock| lock.into_inner())
    }

    /// A place for a connection; none if all are taken.
    pub fn sit<S>(self: &Arc<Self>, stream: S) -> Result<Seated<S>, S> {
        let mut taken = self.lock();
        if taken.count >= self.limit {
            return Err(stream);
        }
        let seat = Arc::new(Seat::default());
        // A connection that was accepted just before the server ends is answered, too.
        if taken.draining {
            seat.told.store(Farewell::Draining as u8, Ordering::Relaxed);
        }
        seat.wait(Waits::ForRequest, self.now());
        taken.count += 1;
        let index = match taken.free.pop() {
            Some(index) => index,
            None => {
                taken.seats.push(None);
                taken.seats.len() - 1
            }
        };
        taken.seats[index] = Some(Arc::clone(&seat));
        drop(taken);
        let place = Arc::new(Place { seat, seats: Arc::clone(self), index });
        Ok(Seated { stream, place, looked: None, has_ended: false })
    }

    /// How many connections there are.
    pub fn count(&self) -> usize {
        self.lock().count
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Tells those that have waited for their clients for too long. Called once in each `SWEEP`.
    pub fn sweep(&self, since_start: Duration) {
        let now = millis(since_start);
        self.now.store(now, Ordering::Relaxed);
        for seat in self.lock().seats.iter().flatten() {
            let (waits, since) = seat.state();
            let waited = now.saturating_sub(since);
            if waits == Waits::ForRequest as u8 && waited >= self.idle {
                seat.tell(Farewell::Idle);
            } else if waits >= Waits::ForRestOfRequest as u8 && waited >= self.slow {
                seat.tell(Farewell::Slow);
            }
        }
    }

    /// Tells all, and those that come, that the server ends.
    pub fn drain(&self) {
        let mut taken = self.lock();
        taken.draining = true;
        for seat in taken.seats.iter().flatten() {
            seat.tell(Farewell::Draining);
        }
    }
}

impl Seat {
    fn tell(&self, farewell: Farewell) {
        // The first word counts, but for `Draining`, which a slow client must not outlast.
        let _ = self.told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |told| {
            (told == 0 || told == Farewell::Draining as u8).then_some(farewell as u8)
        });
        // It synchronises with `register`.
        self.waker.wake();
    }

    fn told(&self) -> Option<Farewell> {
        match self.told.load(Ordering::Relaxed) {
            1 => Some(Farewell::Draining),
            2 => Some(Farewell::Idle),
            3 => Some(Farewell::Slow),
            _ => None,
        }
    }

    /// Relaxed, as all of it: what it waits for is a hint for the sweep, which looks again.
    fn state(&self) -> (u8, u64) {
        let state = self.state.load(Ordering::Relaxed);
        ((state >> 56) as u8, state & (u64::MAX >> 8))
    }

    fn wait(&self, waits: Waits, since: u64) {
        self.state.store(u64::from(waits as u8) << 56 | since, Ordering::Relaxed);
    }

    /// Bytes of a request have come: it began now, or earlier.
    fn receives(&self, now: u64) {
        let (waits, since) = self.state();
        let has_begun = waits == Waits::ForRestOfRequest as u8;
        self.wait(Waits::NotForClient, if has_begun { since } else { now });
    }

    /// No byte is there: after a part of a request, or after an answer that was received late.
    fn waits_for_bytes(&self, now: u64) {
        let (waits, since) = self.state();
        if waits == Waits::NotForClient as u8 {
            self.wait(Waits::ForRestOfRequest, since);
        } else if waits == Waits::ForReader as u8 {
            self.wait(Waits::ForRequest, now);
        }
    }

    /// Some of an answer was taken. Who takes it little by little is as slow as who takes nothing.
    fn has_written(&self, now: u64) {
        if self.state().0 != Waits::ForReader as u8 {
            self.wait(Waits::ForRequest, now);
        }
    }

    /// The client takes nothing more at the moment.
    fn waits_for_reader(&self, now: u64) {
        if self.state().0 != Waits::ForReader as u8 {
            self.wait(Waits::ForReader, now);
        }
    }
}

/// A connection's seat, until the connection and all who know of it are gone.
#[derive(Debug)]
pub struct Place {
    seat: Arc<Seat>,
    seats: Arc<Seats>,
    index: usize,
}

impl Place {
    /// Why reading has ended, if it was not the client that ended it.
    pub fn farewell(&self) -> Option<Farewell> {
        self.seat.told()
    }

    /// Whether the client does not take its answer.
    pub fn waits_for_reader(&self) -> bool {
        self.seat.state().0 == Waits::ForReader as u8
    }

    /// All that was asked is answered, though nothing may have been written.
    pub fn is_between_requests(&self) {
        self.seat.wait(Waits::ForRequest, self.seats.now());
    }

    /// A part of another request has come with those that are answered.
    pub fn is_amid_request(&self) {
        self.seat.wait(Waits::ForRestOfRequest, self.seats.now());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.seats[self.index] = None;
        taken.free.push(self.index);
        taken.count -= 1;
    }
}

/// A connection's stream. Reading ends where the server tells the connection to go.
pub struct Seated<S> {
    stream: S,
    place: Arc<Place>,
    /// Ready once the events of the system have been looked at since the server began to end.
    looked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Reading has ended so.
    has_ended: bool,
}

impl<S> Seated<S> {
    /// Its place.
    pub fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Seated<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, into) {
            Poll::Ready(result) => {
                if into.filled().len() > before {
                    this.place.seat.receives(this.place.seats.now());
                    this.looked = None;
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                let seat = &this.place.seat;
                seat.waits_for_bytes(this.place.seats.now());
                // First the waker: who tells it after that wakes it.
                seat.waker.register(context.waker());
                match seat.told() {
                    // As at the end of a stream, when what has arrived is known.
                    Some(Farewell::Draining) => {
                        let looked = this.looked.get_or_insert_with(|| Box::pin(yield_now()));
                        ready!(looked.as_mut().poll(context));
                        this.has_ended = true;
                        Poll::Ready(Ok(()))
                    }
                    Some(_) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    None => Poll::Pending,
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> Seated<S> {
    /// What a write has come to: a client that does not read is waited for as long as slow ones are.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match done {
            Poll::Pending => {
                let Place { seat, seats, .. } = &*self.place;
                seat.waits_for_reader(seats.now());
                seat.waker.register(context.waker());
                match seat.told() {
                    Some(Farewell::Idle | Farewell::Slow) => {
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    }
                    Some(Farewell::Draining) | None => Poll::Pending,
                }
            }
            done => {
                self.place.seat.has_written(self.place.seats.now());
                done
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seated<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
