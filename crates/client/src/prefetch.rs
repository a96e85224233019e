//! Ids one at a time, of batches.

use crate::{Client, ClientError};

/// Ids of one name that a [`Client`] asks for in batches; from [`Client::prefetch`].
#[derive(Debug)]
pub struct Prefetch<'a> {
    client: &'a mut Client,
    name: String,
    batch: Vec<u64>,
    /// How many of the batch are handed out, or are no ids.
    used: usize,
}

impl<'a> Prefetch<'a> {
    pub(crate) fn new(client: &'a mut Client, name: String, size: usize) -> Self {
        let size = size.max(1);
        Self { client, name, batch: vec![0; size], used: size }
    }

    /// Returns the next id; a request is made when the batch is used up.
    ///
    /// # Errors
    ///
    /// As [`Client::fill`].
    #[inline]
    pub fn next_id(&mut self) -> Result<u64, ClientError> {
        match self.batch.get(self.used) {
            Some(id) => {
                self.used += 1;
                Ok(*id)
            }
            None => self.refill(),
        }
    }

    #[cold]
    fn refill(&mut self) -> Result<u64, ClientError> {
        self.client.fill(&self.name, &mut self.batch)?;
        self.used = 1;
        Ok(self.batch[0])
    }
}
