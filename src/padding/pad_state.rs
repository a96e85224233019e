//! The producer and the source of a ring, held by the one thread that is padding it.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use super::source::{NextRun, RunSource};
use crate::clock::{Deadline, LogThrottle, Stopwatch};
use crate::error::TakeError;
use crate::ring::{CloseReason, Producer, PutError, RingBuffer};
use crate::sync::{contained, log};

/// How far ahead a padding may be predicted. A sleep takes longer than the shortest time, and the takers' pace
/// may change within the longest.
const FORECASTS: Range<Duration> = Duration::from_micros(100)..Duration::from_millis(50);

/// The producer of a ring, its source, and the schedule of its padding.
pub(super) struct PadState {
    /// `None` once the ring is closed, or its source has ended and no number is fresh.
    producer: Option<Producer>,
    source: Box<dyn RunSource>,
    schedule: Option<Duration>,
    /// When to pad, however full the ring is.
    due: Option<Deadline>,
    /// When to ask the source again which numbers are fresh.
    refresh_due: Option<Deadline>,
    /// How long the source asked to wait.
    paused_for: Option<Duration>,
    /// When `make_forecast` last ran, and which run was open then.
    last_forecast: (Stopwatch, u64),
    /// When the padder will look at the ring by itself, because at the takers' pace it will be low by
    /// then.
    forecast: Option<Deadline>,
    dryings: u64,
    dried_log: LogThrottle,
    paused_log: LogThrottle,
    stale_log: LogThrottle,
    notes: Vec<Note>,
}

/// A log record that is written after the padding, because a subscriber is a caller's code, too.
pub(super) enum Note {
    Lost,
    Panicked,
    Misplaced(PutError),
    Paused(&'static str),
    Stale(u64),
    Dried(u64),
}

impl PadState {
    pub(super) fn new(
        producer: Producer,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Self {
        Self {
            producer: Some(producer),
            source: Box::new(source),
            schedule,
            due: None,
            refresh_due: None,
            paused_for: None,
            last_forecast: (Stopwatch::start(), 1),
            forecast: None,
            dryings: 0,
            dried_log: LogThrottle::default(),
            paused_log: LogThrottle::default(),
            stale_log: LogThrottle::default(),
            notes: Vec::new(),
        }
    }

    /// Publishes at most `most` runs from the source, and returns how many. A source that ends finishes
    /// the ring.
    pub(super) fn pad(&mut self, ring: &RingBuffer, most: u64) -> u64 {
        let (mut ended, mut paused_for, mut why) = (false, None, "");
        // One whose end overflows becomes an empty run, which the ring refuses.
        let run = |first: u64, length| Some(first..first.checked_add(length).unwrap_or(first));
        let published = self.ask(ring, |producer, source| {
            if producer.is_closed() {
                return Ok(0);
            }
            source.oldest_fresh().ok_or(Note::Lost)?;
            let next_run = || match source.next_run() {
                // The source may have forked: the run is the parent's, and a wiped slot must stay
                // wiped. It may have closed the ring: what was issued is settled already.
                _ if ring.why_closed().is_some() => None,
                NextRun::Run(first) => run(first, ring.run_length()),
                NextRun::Part { first, length } => run(first, length),
                NextRun::NotYet(wait) => {
                    paused_for = Some(wait);
                    None
                }
                NextRun::End => {
                    ended = true;
                    None
                }
            };
            let published = producer.publish_up_to(most, next_run).map_err(Note::Misplaced)?;
            why = paused_for.map_or(why, |_| source.waits_for());
            Ok(published)
        });
        self.paused_for = paused_for;
        let Some(published) = published else { return 0 };
        if ended {
            ring.close_for(CloseReason::Exhausted);
        }
        ring.set_source_paused(paused_for.is_some());
        if paused_for.is_some() && !ring.has_next() && self.paused_log.is_due() {
            self.notes.push(Note::Paused(why));
        }
        published
    }

    /// Discards stale runs if a refresh is due.
    pub(super) fn refresh_if_due(&mut self, ring: &RingBuffer) {
        // Do not ask the source of a ring that was ended.
        if !self.refresh_due.is_none_or(Deadline::is_over) || ring.is_ended() {
            return;
        }
        self.refresh_due = None;
        let asked = self.ask(ring, |producer, source| {
            let Some(interval) = source.refresh_interval() else { return Ok(None) };
            let oldest = source.oldest_fresh().ok_or(Note::Lost)?;
            // In a forked child, neither of these has an effect.
            ring.refresh(oldest);
            Ok(Some((interval, producer.discard_below(oldest))))
        });
        let Some(Some((interval, discarded))) = asked else { return };
        self.refresh_due = Some(Deadline::after(Some(interval)));
        // Bounds how long a called taker that never takes can delay the others.
        ring.call_next_taker();
        if discarded > 0 && self.stale_log.is_due() {
            self.notes.push(Note::Stale(discarded));
        }
    }

    /// Asks the source, which is a caller's code. Returns `None` in a forked child, and after a panic or an
    /// error of the source. The latter two end the ring, because nobody would discard its stale runs.
    fn ask<R>(
        &mut self,
        ring: &RingBuffer,
        ask: impl FnOnce(&mut Producer, &mut dyn RunSource) -> Result<R, Note>,
    ) -> Option<R> {
        let producer = self.producer.as_mut()?;
        let asked = contained(|| ask(producer, &mut *self.source));
        if ring.is_forked() {
            return None;
        }
        let note = match asked.unwrap_or(Err(Note::Panicked)) {
            Ok(answer) => return Some(answer),
            Err(note) => note,
        };
        if matches!(note, Note::Lost) {
            ring.close_for(CloseReason::LeaseLost);
        }
        self.notes.push(note);
        self.producer = None;
        ring.end();
        None
    }

    /// Sets the time of the next padding: the earliest of the caller's, the source's and the schedule's.
    pub(super) fn plan(&mut self, soon: Option<Duration>) {
        let times = [soon, self.paused_for, self.schedule];
        self.due = times.into_iter().flatten().min().map(|time| Deadline::after(Some(time)));
    }

    /// Predicts the next padding, so that takers need not wake the padder for it. Call after a padding.
    pub(super) fn make_forecast(&mut self, ring: &RingBuffer) {
        let open = ring.hot().open_index();
        let (since, before) = mem::replace(&mut self.last_forecast, (Stopwatch::start(), open));
        let time = ring.runs_until_forecast().and_then(|runs| {
            // A forked child finds 0 for `open`, and so makes no prediction.
            let opened = open.checked_sub(before)?;
            since.elapsed().checked_mul(runs.try_into().ok()?)?.checked_div(opened.try_into().ok()?)
        });
        let time = time.filter(|time| FORECASTS.contains(time));
        self.forecast = time.map(|time| Deadline::after(Some(time)));
        ring.set_forecast(time.is_some());
    }

    /// Clears the forecast once its time has passed. If the ring is not low then, takers wake the padder.
    pub(super) fn clear_past_forecast(&mut self, ring: &RingBuffer) {
        if self.forecast.is_some_and(Deadline::is_over) {
            self.forecast = None;
            ring.set_forecast(false);
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(Deadline::is_over)
    }

    /// Returns the time until there is something to do.
    pub(super) fn next_time(&self) -> Option<Duration> {
        let times = [self.due, self.refresh_due, self.forecast];
        times.into_iter().flatten().filter_map(Deadline::remaining).min()
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn hurry(&mut self) {
        self.refresh_due = None;
        self.due = self.paused_for.map(|_| Deadline::after(Some(Duration::ZERO)));
    }

    /// Returns whether the ring needs no padder any more.
    pub(super) fn is_over(&mut self, ring: &RingBuffer) -> bool {
        if self.producer.is_some() && (ring.why_closed().is_none() || self.is_draining(ring)) {
            return false;
        }
        self.producer = None;
        true
    }

    /// Returns whether the source has ended while some of its numbers are still fresh, in the ring or in takers'
    /// blocks. The padder must still mark them stale in time.
    pub(super) fn is_draining(&self, ring: &RingBuffer) -> bool {
        ring.why_closed() == Some(TakeError::TimeExhausted)
            && self.refresh_due.is_some()
            && ring.oldest() < ring.last_end()
    }

    pub(super) fn note_drying(&mut self, ring: &RingBuffer) {
        let dryings = ring.stats().dried;
        if dryings > self.dryings && self.dried_log.is_due() {
            self.notes.push(Note::Dried(dryings));
        }
        self.dryings = dryings;
    }

    /// Takes the notes that are to be logged.
    pub(super) fn notes(&mut self) -> Vec<Note> {
        mem::take(&mut self.notes)
    }
}

impl fmt::Debug for PadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PadState").field("producer", &self.producer).finish_non_exhaustive()
    }
}

impl Note {
    /// Writes the record; called when other threads can pad the ring again.
    pub(super) fn log(self) {
        match self {
            Self::Lost => {
                log!(error, "the lease of a ring's source is lost; the ring is closed");
            }
            Self::Panicked => {
                log!(error, "the source of a ring's runs panicked; the ring is closed");
            }
            Self::Misplaced(error) => {
                log!(error, %error, "a ring is closed: its source gave a misplaced run");
            }
            Self::Paused(why) => log!(warn, "padding waits: {why}"),
            Self::Stale(discarded) => log!(debug, discarded, "stale numbers discarded"),
            Self::Dried(dryings) => log!(debug, dryings, "takers found the ring dry"),
        }
    }
}
