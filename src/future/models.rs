//! An executor for the loom models of tasks.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};

/// Blocks its thread until a task is woken.
#[derive(Default)]
struct Parker {
    is_woken: Mutex<bool>,
    signal: Condvar,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().expect("no panic") = true;
        self.signal.notify_one();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parker = Arc::<Parker>::default();
    let waker = Waker::from(Arc::clone(&parker));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let mut is_woken = parker.is_woken.lock().expect("no panic");
        while !*is_woken {
            is_woken = parker.signal.wait(is_woken).expect("no panic");
        }
        *is_woken = false;
    }
}

pub fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
