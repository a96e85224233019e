//! Checks a URL and its store for what would make a start fail, and for what could go wrong later.

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::segment::{SegmentRequest, SegmentTag};
use uidring::{Error, Layout, StoreErrorKind, WorkerRequest, WorkerSource};
use uidring_store::options::{AUTHORITY, Tls, TlsMode};
use uidring_store::{
    AnyStore, Finding, Fitting, LeaseOptions, LeaseState, StoreUse, Verdict, WorkerUsage,
};

use crate::options::Options;
use crate::rows;
use crate::source::Source;
use crate::worker::WorkerKind;

/// A layout or a table that ends sooner is a risk.
const SOON: Duration = Duration::from_secs(365 * 86_400);

/// What the examination of a URL found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The store, without user and password.
    pub place: String,
    /// What was found.
    pub findings: Vec<Finding>,
    /// The worker ids that starts get here.
    workers: Option<Workers>,
}

/// Worker ids, and of what.
#[derive(Debug)]
struct Workers {
    /// The store that hands them out; `None` for a worker id of the caller's choice.
    store: Option<String>,
    ids: RangeInclusive<u64>,
    layout: Layout,
    namespace: Option<String>,
}

impl Options {
    /// Examines the store and the options for what makes a start fail, and for what could go wrong later. It changes
    /// nothing and uses up no worker id. It blocks until the store has answered.
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
            findings.push(Finding::good(
                "options",
                format!("these parameters have no effect: {names}"),
            ));
        }
        let layout = self.layout();
        let is_segment = self.generator() == "segment";
        if !is_segment {
            findings.push(life(&layout));
        }
        let (place, ids) = match self.source {
            Source::Fixed(worker) => {
                findings.push(Finding::risk(
                    "worker ids",
                    "a worker id of your own choice has no memory: give each process another one, and start above the \
                     greatest uid so far",
                ));
                let id = worker.acquire(&WorkerRequest::new(layout)).ok().map(|worker| worker.id());
                let place = id.map_or_else(|| "worker:N".to_owned(), |id| format!("worker:{id}"));
                (place, id.filter(|_| !is_segment).map(|id| id..=id))
            }
            Source::Store(_) => match self.store() {
                Err(error) => {
                    findings.push(Finding::error("options", &error));
                    ("the URL".to_owned(), None)
                }
                Ok(store) => {
                    let ids = match is_segment {
                        true => {
                            self.tags(&*store, &mut findings);
                            None
                        }
                        false => self.workers(&*store, &mut findings),
                    };
                    (store.to_string(), ids)
                }
            },
        };
        let store = matches!(self.source, Source::Store(_)).then(|| place.clone());
        let namespace = self.given.text(&rows::NAMESPACE).map(str::to_owned);
        let workers = ids.map(|ids| Workers { store, ids, layout, namespace });
        // What has been said of the store is not said again.
        if findings.iter().all(|finding| finding.verdict < Verdict::Fault)
            && let Err(error) = self.prepare()
        {
            findings.push(Finding::error("options", &error));
        }
        Examined { place, findings, workers }
    }

    /// Examines worker ids, and returns those that starts get.
    fn workers(
        &self,
        store: &dyn AnyStore,
        findings: &mut Vec<Finding>,
    ) -> Option<RangeInclusive<u64>> {
        let kind = self.worker_kind();
        let purpose = match kind {
            WorkerKind::Leased | WorkerKind::Ordinal => StoreUse::Lease,
            _ => StoreUse::Disposable,
        };
        if !self.reach(store, purpose, findings) {
            return None;
        }
        let layout = self.layout();
        if store.worker_file().is_some_and(|file| !file.exists()) {
            return Some(1..=layout.max_worker_id());
        }
        let found = match kind {
            WorkerKind::Registered => registered(store, &layout),
            // Nobody else has the ordinal's worker id.
            WorkerKind::Ordinal => return None,
            WorkerKind::Leased => leases(store, &layout),
            _ => store
                .worker_table(None)
                .and_then(|table| table.usage())
                .map(|usage| (ids(&usage, &layout), disposable(&usage, &layout))),
        };
        match found {
            Ok((ids, finding)) => {
                findings.push(finding);
                Some(ids)
            }
            Err(error) => {
                findings.push(Finding::error("worker ids", &error));
                None
            }
        }
    }

    fn tags(&self, store: &dyn AnyStore, findings: &mut Vec<Finding>) {
        if !self.reach(store, StoreUse::Segments, findings) {
            return;
        }
        let tags = match store.segment_table().and_then(|table| table.list_tags()) {
            Ok(tags) => tags,
            Err(error) => return findings.push(Finding::error("tag", &error)),
        };
        if let Some(name) = self.given.text(&rows::TAG) {
            findings.push(of_tag(name, tags.iter().find(|tag| tag.tag == name)));
        }
    }

    /// Adds the store's own findings, and returns whether the store can be used at all.
    fn reach(&self, store: &dyn AnyStore, purpose: StoreUse, findings: &mut Vec<Finding>) -> bool {
        let mut found = store.examine(purpose);
        let is_fault = |finding: &Finding| {
            finding.verdict == Verdict::Fault
                && ["connection", "file", "rights"].contains(&finding.about)
        };
        let is_usable = !found.iter().any(is_fault);
        if let Ok(Tls { mode: Some(TlsMode::Verify), .. }) = Tls::of(&self.given)
            && let Some(tls) = found.iter_mut().find(|finding| finding.about == "TLS")
        {
            tls.text.push_str("; the server's certificate is signed by an authority ");
            tls.text.push_str(&match self.given.text(&AUTHORITY) {
                Some(path) => format!("of {path}"),
                None => "that this system trusts".to_owned(),
            });
        }
        findings.extend(found);
        is_usable
    }
}

fn of_tag(name: &str, tag: Option<&SegmentTag>) -> Finding {
    let Some(tag) = tag else {
        let text = format!(
            "there is no tag `{name}`: `uidring segment create {name} --step 1000` creates it"
        );
        return Finding::fault("tag", text);
    };
    let request = SegmentRequest { tag: name.into(), step: 0 };
    match request.range(tag.max_id, tag.step) {
        Ok(next) => {
            let text =
                format!("`{name}` goes on from {}, in steps of {}", next.start, next.table_step);
            Finding::good("tag", text)
        }
        Err(error) => Finding::error("tag", &error),
    }
}

/// Says when the layout ends.
fn life(layout: &Layout) -> Finding {
    let now = SystemClock.now();
    let end = layout.last_instant().date();
    match layout.tick_at(now) {
        Err(error) => Finding::fault("layout", format!("layout {layout}: {error}")),
        Ok(_) if layout.remaining_life(now) < SOON => Finding::risk(
            "layout",
            format!(
                "layout {layout} ends on {end}: there are no uids after that; plan another layout"
            ),
        ),
        Ok(_) => Finding::good("layout", format!("layout {layout} ends on {end}")),
    }
}

/// The worker ids that a store may hand out.
fn ids(usage: &WorkerUsage, layout: &Layout) -> RangeInclusive<u64> {
    let fitting = Fitting::new(layout, usage.range);
    fitting.first()..=fitting.last()
}

/// Says how many worker ids are left to starts that use them up.
fn disposable(usage: &WorkerUsage, layout: &Layout) -> Finding {
    let (left, end) = (usage.left(layout), usage.runs_out(layout));
    let rate = usage.per_day.map_or_else(
        || "it is too early to tell how long they last".to_owned(),
        |rate| format!("recent starts use {rate:.1} a day"),
    );
    let text = match end {
        Some(end) if left > 0 => format!("{left} are left; {rate}, and they end on {}", end.date()),
        _ => format!("{left} are left; {rate}"),
    };
    match end {
        _ if left == 0 => Finding::fault(
            "worker ids",
            "none is left: lease those of starts that have ended (`uidring worker reuse`), or use a layout with more \
             worker bits, or another store with another range",
        ),
        Some(end) if end.saturating_since(usage.now) < SOON => Finding::risk("worker ids", text),
        _ => Finding::good("worker ids", text),
    }
}

/// Says how many worker ids a start could lease.
fn leases(store: &dyn AnyStore, layout: &Layout) -> Result<(RangeInclusive<u64>, Finding), Error> {
    let usage = store.worker_table(None)?.usage()?;
    let rows = store.lease_table(LeaseOptions::default())?.list()?;
    let held = rows.iter().filter(|row| matches!(row.state, LeaseState::Held(_))).count();
    let free = usage.left(layout) + (rows.len() - held) as u64;
    let ids = ids(&usage, layout);
    let other = layout.to_string();
    if let Some(row) = rows.iter().find(|row| row.layout != other) {
        let text = format!(
            "the leases are for layout {}, and this is {layout}: use the same layout, or another store",
            row.layout
        );
        return Ok((ids, Finding::fault("leases", text)));
    }
    let text = format!("{held} are held, and {free} are free");
    Ok((
        ids,
        match free {
            0 => Finding::fault(
                "leases",
                format!(
                    "{text}: a start waits for as long as `lease-wait` says, and fails; end what is not needed, or see \
                     `uidring worker leases`"
                ),
            ),
            _ => Finding::good("leases", text),
        },
    ))
}

fn registered(
    store: &dyn AnyStore,
    layout: &Layout,
) -> Result<(RangeInclusive<u64>, Finding), Error> {
    let nodes = match store.instances() {
        // Nobody has registered yet.
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => Vec::new(),
        nodes => nodes?,
    };
    let used = nodes.iter().map(|node| node.number.max(0) + 1).max().unwrap_or(0);
    let left = layout.workers().saturating_sub(used.unsigned_abs());
    let text = format!("{left} are left for new instances");
    let finding = match left {
        0 => Finding::fault(
            "worker ids",
            "no number is left for a new instance: use another registry, with another name",
        ),
        _ => Finding::good("worker ids", text),
    };
    Ok((0..=layout.max_worker_id(), finding))
}

impl Examined {
    /// Finds worker ids that both stores hand out, for uids that are compared with each other.
    pub fn overlap(&self, other: &Self) -> Option<Finding> {
        let (ours, theirs) = (self.workers.as_ref()?, other.workers.as_ref()?);
        let is_one = ours.store.is_some() && ours.store == theirs.store;
        let are_others = (ours.layout, &ours.namespace) != (theirs.layout, &theirs.namespace);
        let first = *ours.ids.start().max(theirs.ids.start());
        let last = *ours.ids.end().min(theirs.ids.end());
        if is_one || are_others || first > last {
            return None;
        }
        Some(Finding::fault(
            "ranges",
            format!(
                "{} and {} both hand out worker ids {first} to {last} of layout {}, and uids repeat: record another range for \
                 each with `uidring worker init --workers FIRST-LAST`",
                self.place, other.place, ours.layout
            ),
        ))
    }
}
