//! A connection's place in the server, which tells it to end if the server stops or the client is idle or slow.

use std::collections::HashMap;
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

/// Why a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Farewell {
    /// The server stops. What has arrived is still answered.
    Draining = 1,
    /// The client asked for nothing for too long.
    Idle = 2,
    /// The client did not complete a request or receive an answer in time.
    Slow = 3,
}

/// How often waiting connections are checked.
pub const SWEEP: Duration = Duration::from_millis(500);

/// Limits the time to 56 bits, which last for two million years.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> 8)
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Waits {
    /// Not for the client: it works, or waits for ids.
    NotForClient = 0,
    ForRequest = 1,
    ForRestOfRequest = 2,
    ForReader = 3,
}

/// One connection, as the server sees it.
#[derive(Debug, Default)]
struct Seat {
    /// A `Farewell`, or 0.
    told: AtomicU8,
    /// A `Waits` in the top byte. The lower 56 bits say when the wait or, amid a request, the request began.
    state: AtomicU64,
    waker: AtomicWaker,
}

#[derive(Debug)]
pub struct Seats {
    taken: Mutex<Taken>,
    limit: usize,
    idle: u64,
    slow: u64,
    /// Milliseconds from the server's start to the last `sweep`.
    now: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    /// The taken seats, by number.
    seats: HashMap<u64, Arc<Seat>>,
    last: u64,
    draining: bool,
}

impl Seats {
    pub fn new(limits: &Limits) -> Self {
        // Times may be as old as the last sweep.
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

    /// Seats a connection. Gives the stream back if there is no room.
    pub fn sit<S>(self: &Arc<Self>, stream: S) -> Result<Seated<S>, S> {
        let mut taken = self.lock();
        if taken.seats.len() >= self.limit {
            return Err(stream);
        }
        let seat = Arc::new(Seat::default());
        // A connection accepted just before the server stops is answered, too.
        if taken.draining {
            seat.told.store(Farewell::Draining as u8, Ordering::Relaxed);
        }
        seat.wait(Waits::ForRequest, self.now());
        taken.last += 1;
        let number = taken.last;
        taken.seats.insert(number, Arc::clone(&seat));
        drop(taken);
        let place = Arc::new(Place { seat, seats: Arc::clone(self), number });
        Ok(Seated { stream, place, looked: None, has_ended: false })
    }

    pub fn count(&self) -> usize {
        self.lock().seats.len()
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Tells connections that have waited for their clients for too long to end. Called once per `SWEEP`.
    pub fn sweep(&self, since_start: Duration) {
        let now = millis(since_start);
        self.now.store(now, Ordering::Relaxed);
        for seat in self.lock().seats.values() {
            let (waits, since) = seat.state();
            let waited = now.saturating_sub(since);
            if waits == Waits::ForRequest as u8 && waited >= self.idle {
                seat.tell(Farewell::Idle);
            } else if waits >= Waits::ForRestOfRequest as u8 && waited >= self.slow {
                seat.tell(Farewell::Slow);
            }
        }
    }

    /// Tells all connections, including later ones, that the server stops.
    pub fn drain(&self) {
        let mut taken = self.lock();
        taken.draining = true;
        for seat in taken.seats.values() {
            seat.tell(Farewell::Draining);
        }
    }
}

impl Seat {
    fn tell(&self, farewell: Farewell) {
        // Keep the first reason, but let the others replace `Draining`, which a slow client must not outlast.
        let _ = self.told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |told| {
            (told == 0 || told == Farewell::Draining as u8).then_some(farewell as u8)
        });
        // Synchronizes with `register`.
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

    /// Relaxed, like the store: this is a hint for the sweep, which checks again.
    fn state(&self) -> (u8, u64) {
        let state = self.state.load(Ordering::Relaxed);
        ((state >> 56) as u8, state & (u64::MAX >> 8))
    }

    fn wait(&self, waits: Waits, since: u64) {
        self.state.store(u64::from(waits as u8) << 56 | since, Ordering::Relaxed);
    }

    /// Bytes of a request have come. It began now or earlier.
    fn receives(&self, now: u64) {
        let (waits, since) = self.state();
        let has_begun = waits == Waits::ForRestOfRequest as u8;
        self.wait(Waits::NotForClient, if has_begun { since } else { now });
    }

    /// There are no more bytes: after part of a request, or after an answer that was received late.
    fn waits_for_bytes(&self, now: u64) {
        let (waits, since) = self.state();
        if waits == Waits::NotForClient as u8 {
            self.wait(Waits::ForRestOfRequest, since);
        } else if waits == Waits::ForReader as u8 {
            self.wait(Waits::ForRequest, now);
        }
    }

    /// Part of an answer was written. Reading it bit by bit is as slow as not reading it.
    fn has_written(&self, now: u64) {
        if self.state().0 != Waits::ForReader as u8 {
            self.wait(Waits::ForRequest, now);
        }
    }

    /// The client reads no more at the moment.
    fn waits_for_reader(&self, now: u64) {
        if self.state().0 != Waits::ForReader as u8 {
            self.wait(Waits::ForReader, now);
        }
    }
}

/// A connection's seat, which is free once all references to it are gone.
#[derive(Debug)]
pub struct Place {
    seat: Arc<Seat>,
    seats: Arc<Seats>,
    number: u64,
}

impl Place {
    /// Returns why reading has ended, unless the client ended it.
    pub fn farewell(&self) -> Option<Farewell> {
        self.seat.told()
    }

    /// Whether the client is not reading its answer.
    pub fn waits_for_reader(&self) -> bool {
        self.seat.state().0 == Waits::ForReader as u8
    }

    /// Records that all requests are answered, even if nothing was written.
    pub fn is_between_requests(&self) {
        self.seat.wait(Waits::ForRequest, self.seats.now());
    }

    /// Records that part of another request came with the answered ones.
    pub fn is_amid_request(&self) {
        self.seat.wait(Waits::ForRestOfRequest, self.seats.now());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.seats.lock().seats.remove(&self.number);
    }
}

/// A connection's stream. Reading ends if the server tells the connection to end.
pub struct Seated<S> {
    stream: S,
    place: Arc<Place>,
    /// Ready once the runtime has polled the system's events after the server began to stop.
    looked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Reading has ended for that reason.
    has_ended: bool,
}

impl<S> Seated<S> {
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
                // Register first: a farewell after this wakes the waker.
                seat.waker.register(context.waker());
                match seat.told() {
                    // Report the end of the stream once all that has arrived is known.
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
    /// Records the result of a write. A client that does not read gets as much time as a slow one.
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
