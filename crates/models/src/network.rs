//! Messages.

use std::collections::BTreeSet;

/// The requests sent, whether or not anyone still waits for their answers.
///
/// Any of them may be performed next, or never, or again. So one set represents requests under way, lost, late and
/// repeated, in every order. If a request is performed while its process waits, the answer may arrive or be lost;
/// later, nobody hears it. A process that has stopped waiting may send the same again. That is one request here, and
/// the process need not hear what an earlier copy did.
///
/// [`stateright`]'s own network delivers to actors. Here only a store acts on messages, one step each, like a database
/// transaction.
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

    /// Iterates over all requests that may be performed.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.0.iter()
    }

    /// Returns whether this request was sent.
    pub fn has(&self, request: &R) -> bool {
        self.0.contains(request)
    }

    /// Forgets requests that can change nothing and that nobody waits for. States with and without them have the same
    /// futures.
    pub fn forget(&mut self, is_spent: impl Fn(&R) -> bool) {
        self.0.retain(|request| !is_spent(request));
    }

    /// Takes all requests out, to be sent again with other names.
    pub fn take(&mut self) -> Vec<R> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}
