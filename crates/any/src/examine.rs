//! Examines a URL and its store for what could make a start fail, now or later.

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::segment::SegmentRequest;
use uidring::{Error, Layout, StoreErrorKind, WorkerRequest};
use uidring_store::leases::{Denial, Shortage};
use uidring_store::options::{AUTHORITY, Tls, TlsMode};
use uidring_store::{
    AnyStore, Finding, Fitting, LeaseOptions, LeaseRow, LeaseState, RangeRefusal, StoreUse,
    Verdict, WorkerUsage, quoted,
};

use crate::options::Options;
use crate::rows;
use crate::worker::{self, WorkerKind};

/// The worker ids that starts can get.
type Ids = RangeInclusive<u64>;

/// A layout or table that ends sooner is a risk.
const SOON: Duration = Duration::from_secs(365 * 86_400);

/// The result of examining a URL.
#[derive(Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The store, without user and password.
    pub place: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The worker ids that starts get here.
    workers: Option<Workers>,
}

/// A set of worker ids, and what they are for.
#[derive(Debug)]
struct Workers {
    kind: WorkerKind,
    /// Identifies the store; `None` for a worker id that you choose.
    store: Option<String>,
    ids: Ids,
    layout: Layout,
    namespace: Option<String>,
}

impl Options {
    /// Examines the options and the store for what makes a start fail now or later. Changes nothing and uses up no
    /// worker id. Blocks until the store has answered.
    ///
    /// ```
    /// use uidring_any::{Options, Verdict};
    ///
    /// let examined = Options::from_url("worker:7")?.examine();
    /// assert!(examined.findings.iter().all(|finding| finding.verdict < Verdict::Fault));
    /// # Ok::<(), uidring_any::uidring::Error>(())
    /// ```
    pub fn examine(self) -> Examined {
        let mut findings = Vec::new();
        if !self.given.harmless().is_empty() {
            let names = self.given.harmless().join(", ");
            let text = format!("these parameters have no effect: {names}");
            findings.push(Finding::good("options", text));
        }
        let layout = self.layout();
        let is_segment = self.generator() == "segment";
        if !is_segment {
            findings.push(life(&layout));
        }
        let (place, store, ids) = match self.worker {
            Some(worker) => {
                findings.push(Finding::risk(
                    "worker ids",
                    "a worker id of your own choice has no memory: give each process another one, and start above the \
                     greatest uid so far",
                ));
                let id = layout.check_worker_id(worker.id).ok().map(|()| worker.id);
                let place = id.map_or_else(|| "worker:N".to_owned(), |id| format!("worker:{id}"));
                (place, None, id.filter(|_| !is_segment).map(|id| id..=id))
            }
            None => match self.store() {
                Err(error) => {
                    findings.push(Finding::error("options", &error));
                    ("the URL".to_owned(), None, None)
                }
                Ok(store) => {
                    let ids = self.in_store(&*store, &mut findings).unwrap_or_else(|fault| {
                        findings.push(fault);
                        None
                    });
                    (store.to_string(), Some(store.identity()), ids)
                }
            },
        };
        let (kind, namespace) = (self.worker_kind(), self.given.text(&rows::NAMESPACE));
        let namespace = namespace.map(str::to_owned);
        let workers = ids.map(|ids| Workers { kind, store, ids, layout, namespace });
        // Do not report a fault of the store twice.
        if findings.iter().all(|finding| finding.verdict < Verdict::Fault)
            && let Err(error) = self.prepare()
        {
            findings.push(Finding::error("options", &error));
        }
        Examined { place, findings, workers }
    }

    /// Examines a store, and returns the worker ids that its starts get.
    fn in_store(
        &self,
        store: &dyn AnyStore,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Ids>, Finding> {
        let (kind, layout) = (self.worker_kind(), self.layout());
        let wanted = self.store_use().map_err(|error| {
            // A store without ordinals says so first.
            let source = worker::source(kind, store, &self.given, layout);
            Finding::error("options", source.as_ref().err().unwrap_or(&error))
        })?;
        let found = store.examine(wanted);
        let is_usable = found.is_ok();
        let (Ok(found) | Err(found)) = found;
        findings.extend(self.with_authority(found));
        if !is_usable {
            return Ok(None);
        }
        let found = match wanted {
            StoreUse::Segments => {
                let tag = self.given.text(&rows::TAG).map(|name| tag(store, name)).transpose();
                findings.extend(tag.map_err(|error| Finding::error("tag", &error))?);
                return Ok(None);
            }
            // An ordinal's worker id has no other user.
            StoreUse::Ordinal(worker_id, _) => return Ok(Some(worker_id..=worker_id)),
            _ if store.worker_file().is_some_and(|file| !file.exists()) => {
                return Ok(Some(1..=layout.max_worker_id()));
            }
            _ if kind == WorkerKind::Registered => registered(store, &layout),
            StoreUse::Lease(_) => {
                self.max_used_ahead().and_then(|limit| leases(store, &layout, limit))
            }
            StoreUse::Disposable => disposable(store, &layout),
        };
        let (ids, finding) = found.map_err(|error| Finding::error("worker ids", &error))?;
        findings.push(finding);
        Ok(Some(ids))
    }

    /// Returns how far ahead of the clock a worker id may have been used for a start to lease it.
    fn max_used_ahead(&self) -> Result<Duration, Error> {
        let mut request = WorkerRequest::new(self.layout());
        if self.generator() == "cached" {
            let limit = self.given.time(&rows::MAX_BORROW);
            request.max_ahead = limit.unwrap_or(WorkerRequest::USUAL_MAX_AHEAD);
        }
        request.max_start_wait = self.given.time(&rows::MAX_START_WAIT);
        Ok(request.max_used_ahead(&worker::lease(&self.given).terms()?))
    }

    /// Adds to the finding about TLS who signed the server's certificate.
    fn with_authority(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        if let Ok(Tls { mode: Some(TlsMode::Verify), .. }) = Tls::of(&self.given)
            && let Some(tls) = findings.iter_mut().find(|finding| finding.about == "TLS")
        {
            tls.text.push_str("; the server's certificate is signed by an authority ");
            tls.text.push_str(&match self.given.text(&AUTHORITY) {
                Some(path) => format!("of {path}"),
                None => "that is trusted by default".to_owned(),
            });
        }
        findings
    }
}

/// Reports a tag's next id.
fn tag(store: &dyn AnyStore, name: &str) -> Result<Finding, Error> {
    let tags = store.segment_table()?.list_tags()?;
    let Some(tag) = tags.into_iter().find(|tag| tag.tag == name) else {
        let text = format!(
            "there is no tag `{name}`: `uidring segment create {} --step 1000` creates it",
            quoted(name)
        );
        return Ok(Finding::fault("tag", text));
    };
    let request = SegmentRequest { tag: tag.tag, step: 0 };
    Ok(match request.range(tag.max_id, tag.step) {
        Ok(next) => {
            let (start, step) = (next.start, next.table_step);
            Finding::good("tag", format!("`{name}` goes on from {start}, in steps of {step}"))
        }
        Err(error) => Finding::error("tag", &error),
    })
}

/// Says when the layout ends.
fn life(layout: &Layout) -> Finding {
    let now = SystemClock.now();
    let end = layout.last_instant().date();
    match layout.tick_at(now) {
        Err(error) => Finding::fault("layout", format!("{layout}: {error}")),
        Ok(_) if layout.remaining_life(now) < SOON => Finding::risk(
            "layout",
            format!("{layout} ends on {end}: there are no uids after that; plan another layout"),
        ),
        Ok(_) => Finding::good("layout", format!("{layout} ends on {end}")),
    }
}

/// Says how many disposable worker ids are left.
fn disposable(store: &dyn AnyStore, layout: &Layout) -> Result<(Ids, Finding), Error> {
    let usage = store.worker_table()?.usage()?;
    let fitting = Fitting::new(layout, usage.range);
    let (left, end) = (usage.left(layout), usage.runs_out(layout));
    if left == 0 {
        let next = usage.last().map_or(fitting.first(), |last| last + 1);
        return Err(fitting.error(store.to_string(), next));
    }
    let rate = usage.per_day.map_or_else(
        || "it is too early to tell how long they last".to_owned(),
        |rate| format!("recent starts use {rate:.1} a day"),
    );
    let end_day = end.map_or_else(String::new, |end| format!(", and they end on {}", end.date()));
    let text = format!("{left} of {fitting} are left; {rate}{end_day}");
    let is_soon = end.is_some_and(|end| end.saturating_since(usage.now) < SOON);
    let leases = store.lease_table(LeaseOptions::default()).and_then(|table| table.list());
    let finding = match wrong_counter(store, &usage, &leases.unwrap_or_default()) {
        Some(wrong) => wrong,
        None if is_soon || fitting.is_low(left) => Finding::risk("worker ids", text),
        None => Finding::good("worker ids", text),
    };
    Ok((fitting.first()..=fitting.last(), finding))
}

/// Finds a counter that will hand out worker ids again: below a lease, or below its own rows.
fn wrong_counter(
    store: &dyn AnyStore,
    usage: &WorkerUsage,
    leases: &[LeaseRow],
) -> Option<Finding> {
    // A file's engine examines it, and an ordinal's file has only the lease.
    if store.worker_file().is_some() {
        return None;
    }
    let counter = usage.last_key.or(usage.newest);
    let is_above = |id: &u64| Some(*id) > counter;
    let leased = leases.iter().map(|row| row.worker_id).max().filter(is_above);
    let text = match (leased, usage.newest.filter(is_above)) {
        (Some(leased), _) => format!(
            "worker id {leased} is leased, and the counter of worker ids is below it: it was set back, or its table was \
             lost, and worker ids repeat; set it above all worker ids that were ever handed out. Row-level \
             security that hides rows of WORKER_NODE from this account looks the same: lift it"
        ),
        (None, Some(newest)) => format!(
            "the counter of worker ids was set back below {newest}, the greatest in WORKER_NODE, and starts will \
             fail; set it above all worker ids that were ever handed out"
        ),
        (None, None) => return None,
    };
    Some(Finding::fault("worker ids", text))
}

/// Says how many worker ids a start could lease.
fn leases(
    store: &dyn AnyStore,
    layout: &Layout,
    max_used_ahead: Duration,
) -> Result<(Ids, Finding), Error> {
    let usage = store.worker_table()?.usage()?;
    let rows = store.lease_table(LeaseOptions::default())?.list()?;
    let (fitting, place) = (Fitting::new(layout, usage.range), store.to_string());
    let own = layout.to_string();
    if let Some(row) = rows.iter().find(|row| row.layout != own) {
        return Err(Denial::Foreign(row.layout.clone()).error(place, layout));
    }
    let is_outside = |row: &&LeaseRow| usage.range.is_some_and(|r| !r.contains(row.worker_id));
    if let (Some(row), Some(range)) = (rows.iter().find(is_outside), usage.range) {
        return Err(RangeRefusal::Ignored(row.worker_id).error(place, range));
    }
    if let Some(wrong) = wrong_counter(store, &usage, &rows) {
        return Ok((fitting.first()..=fitting.last(), wrong));
    }
    let end = |row: &LeaseRow| match row.state {
        LeaseState::Held(until) => Some(until),
        _ => None,
    };
    let ends: Vec<_> = rows.iter().filter_map(end).collect();
    let limit = usage.now.saturating_add(max_used_ahead);
    let others = rows.iter().filter(|row| end(row).is_none());
    let used_until = others.filter_map(LeaseRow::used_until);
    let ahead: Vec<_> = used_until.filter(|until| *until > limit).collect();
    let held = ends.len();
    let free = usage.left(layout) + (rows.len() - held - ahead.len()) as u64;
    if free == 0 && ahead.is_empty() {
        let ends_in = ends.iter().min().map(|end| end.saturating_since(usage.now));
        let (leased, held, range) = (rows.len() as u64, held as u64, usage.range);
        let shortage = Shortage { leased, held, ends_in, range, ..Shortage::default() };
        return Err(Denial::Short(shortage).error(place, layout));
    }
    let used_up = fitting.count().saturating_sub(usage.left(layout) + rows.len() as u64);
    let mut text = format!("of {fitting}, {free} are free, {held} leased, and {used_up} used up");
    if let Some(first) = ahead.iter().min() {
        text.push_str(&format!(
            "; {} can be leased only later, since they were used ahead of the clock, the first at {first:.0}",
            ahead.len()
        ));
    }
    let finding = match free {
        0 => Finding::fault("worker ids", text),
        _ => Finding::good("worker ids", text),
    };
    Ok((fitting.first()..=fitting.last(), finding))
}

fn registered(store: &dyn AnyStore, layout: &Layout) -> Result<(Ids, Finding), Error> {
    let nodes = match store.instances() {
        // Nobody has registered yet.
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => Vec::new(),
        nodes => nodes?,
    };
    let used = nodes.iter().map(|node| node.number.max(0) + 1).max().unwrap_or(0);
    let left = layout.workers().saturating_sub(used.unsigned_abs());
    let finding = match left {
        0 => Finding::fault(
            "worker ids",
            "no number is left for a new instance: use another registry, with another name",
        ),
        _ => Finding::good("worker ids", format!("{left} are left for new instances")),
    };
    Ok((0..=layout.max_worker_id(), finding))
}

impl Workers {
    /// Says how to keep its worker ids apart from others.
    fn remedy(&self) -> &'static str {
        match self.kind {
            WorkerKind::Chosen => "choose another worker id",
            WorkerKind::Ordinal => "choose another `ordinal-offset`",
            WorkerKind::Registered => "use the registry of the other, or another layout",
            WorkerKind::Disposable | WorkerKind::Leased => {
                "use a new database or file, and record a range in it with `uidring worker init --workers FIRST-LAST -u \
                 URL` before its first start"
            }
        }
    }
}

impl Examined {
    /// Compares the worker ids of both stores; `None` if one hands out none. Uids of different layouts or namespaces
    /// may share worker ids.
    ///
    /// Two addresses of one server count as two stores, and the same address as one.
    pub fn overlap(&self, other: &Self) -> Option<Finding> {
        let (ours, theirs) = (self.workers.as_ref()?, other.workers.as_ref()?);
        let [a, b] = [&self.place, &other.place];
        let good = |text| Some(Finding::good("ranges", text));
        if (ours.layout, &ours.namespace) != (theirs.layout, &theirs.namespace) {
            return good(format!(
                "{a} and {b} have other layouts or namespaces, and are not compared"
            ));
        }
        if ours.store.is_some() && ours.store == theirs.store {
            return good(format!("two of the URLs lead to one store, {b}"));
        }
        let first = *ours.ids.start().max(theirs.ids.start());
        let last = *ours.ids.end().min(theirs.ids.end());
        if first > last {
            return good(format!("{a} and {b} have no worker id in common"));
        }
        let ids = match first == last {
            true => format!("worker id {first}"),
            false => format!("worker ids {first} to {last}"),
        };
        let mut remedies = vec![ours.remedy(), theirs.remedy()];
        remedies.dedup();
        Some(Finding::fault(
            "ranges",
            format!(
                "{a} and {b} both hand out {ids} of layout {}, and their uids repeat, unless they are one store: for \
                 one of them, {}",
                ours.layout,
                remedies.join(", or ")
            ),
        ))
    }
}
