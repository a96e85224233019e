//! A client of any protocol except HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::answers::Answers;
use crate::error::{IssueError, Unissued};
use crate::listener::Protocol;
use crate::names::Name;
use crate::shared::Shared;

/// A client, and what was done for it since the server's counters were updated.
pub struct Client {
    pub shared: Arc<Shared>,
    protocol: Protocol,
    /// Whether it gave the password, or the server has none.
    pub is_trusted: bool,
    /// Whether to close the connection after the answers.
    pub is_over: bool,
    /// The last name, which is usually also the next.
    recent: Option<Arc<Name>>,
    /// When the current requests arrived, if one of them asked for an unknown name.
    arrived: Option<Instant>,
    pub requests: u64,
    pub errors: u64,
    /// Ids of the recent name that are not counted yet.
    issued: u64,
}

impl Client {
    pub fn new(shared: &Arc<Shared>, protocol: Protocol) -> Self {
        Self {
            is_trusted: shared.password.is_none(),
            shared: Arc::clone(shared),
            protocol,
            is_over: false,
            recent: None,
            arrived: None,
            requests: 0,
            errors: 0,
            issued: 0,
        }
    }

    /// Returns whether this is the password, and then trusts the client; `None` if the server has no password.
    pub fn authenticate(&mut self, given: &[u8]) -> Option<bool> {
        let is_right = self.shared.password.as_ref()?.is(given);
        self.is_trusted |= is_right;
        Some(is_right)
    }

    /// Returns the next id of the recent name, if that is the requested one and has an id ready. Most requests need
    /// only this, without a future.
    #[inline]
    pub fn ready(&mut self, text: Option<&[u8]>) -> Option<u64> {
        let recent = self.recent.as_ref().filter(|recent| self.is(recent, text))?;
        let id = recent.issuer().ready()?;
        self.issued += 1;
        Some(id)
    }

    /// Whether the name is the requested one; without a text, the default.
    #[inline]
    fn is(&self, name: &Arc<Name>, text: Option<&[u8]>) -> bool {
        match text {
            Some(text) => name.text().as_bytes() == text && !name.is_removed(),
            None => self.shared.names.default_name().is_some_and(|other| Arc::ptr_eq(name, other)),
        }
    }

    /// Makes the requested name the recent one; without a text, the default. Returns `None` if there is no such name.
    pub async fn look_up(
        &mut self,
        text: Option<&[u8]>,
        answers: &mut Answers<'_>,
    ) -> Result<Option<Found<'_>>, Unissued> {
        let Some(text) = text else { return Ok(self.default_name()) };
        if self.recent.as_ref().is_none_or(|recent| !self.is(recent, Some(text))) {
            let Ok(text) = str::from_utf8(text) else { return Ok(None) };
            let found = self.shared.names.find_or_look(text, &mut self.arrived);
            let Some(name) = answers.wait(found).await?? else { return Ok(None) };
            self.set(name);
        }
        Ok(self.recent())
    }

    /// Makes the default name the recent one, if there is one.
    pub fn default_name(&mut self) -> Option<Found<'_>> {
        let name = self.shared.names.default_name()?;
        if self.recent.as_ref().is_none_or(|recent| !Arc::ptr_eq(recent, name)) {
            self.set(Arc::clone(name));
        }
        self.recent()
    }

    fn set(&mut self, name: Arc<Name>) {
        self.count_issued();
        self.recent = Some(name);
    }

    fn recent(&mut self) -> Option<Found<'_>> {
        let Self { shared, protocol, recent, issued, .. } = self;
        Some(Found { name: recent.as_ref()?, shared, protocol: *protocol, issued })
    }

    /// Adds the issued ids to the name's counter.
    pub fn count_issued(&mut self) {
        if let Some(name) = &self.recent
            && self.issued > 0
        {
            name.counters.issued(self.protocol, self.issued);
            self.issued = 0;
        }
    }

    /// Adds the requests, answered in this time, to the server's counters.
    pub fn count_requests(&mut self, time: Duration) {
        self.shared.counters(self.protocol).answered(self.requests, self.errors, time);
        (self.requests, self.errors, self.arrived) = (0, 0, None);
    }
}

pub struct Found<'a> {
    pub name: &'a Name,
    pub shared: &'a Shared,
    protocol: Protocol,
    issued: &'a mut u64,
}

impl Found<'_> {
    pub async fn take(self, answers: &mut Answers<'_>) -> Result<u64, Unissued> {
        let taken = answers.wait(self.name.issuer().take()).await?;
        self.counted(1, taken)
    }

    pub fn counted<T>(self, ids: u64, done: Result<T, IssueError>) -> Result<T, Unissued> {
        match &done {
            Ok(_) => *self.issued += ids,
            Err(_) => self.name.counters.failed(self.protocol),
        }
        Ok(done?)
    }
}
