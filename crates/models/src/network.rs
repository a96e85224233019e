//! Messages.

use std::collections::BTreeSet;

/// The requests that were sent, whether or not anybody still waits for their answers.
///
/// Any of them may be performed next, or never, and again after it was performed. So one set stands for
/// requests that are under way, lost, late and repeated, and for every order of them. A request that is
/// performed while its process waits may be answered, or that answer lost; the answer of one that is performed
/// later is heard by nobody. A process may send the same again after it has stopped waiting: then it is the same
/// request here, and what an earlier copy does need not be what it hears.
///
/// [`stateright`]'s own network delivers to actors; here only a store acts on messages, in one step each, as a
/// database's transaction does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Network<R: Ord>(BTreeSet<R>);

impl<R: Ord> Default for Network<R> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<R: Ord> Network<R> {
    /// Sends a request.
    pub fn send(&mut self, request: R) {
        self.0.insert(request);
    }

    /// All requests that may be performed.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.0.iter()
    }

    /// Returns whether this request was sent.
    pub fn has(&self, request: &R) -> bool {
        self.0.contains(request)
    }

    /// Forgets the requests that can change nothing any more and that nobody waits for: a state with them
    /// and one without have the same futures.
    pub fn forget(&mut self, is_spent: impl Fn(&R) -> bool) {
        self.0.retain(|request| !is_spent(request));
    }

    /// Takes all requests out, to be sent under other names.
    pub fn take(&mut self) -> Vec<R> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}
