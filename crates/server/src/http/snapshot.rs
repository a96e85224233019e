//! A snapshot of the server, shared by all watchers within a second.

use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde_json::{Value, json};
use uidring::CachedUidGenerator;
use uidring::segment::SegmentHandle;

use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::{Name, SHOWN};
use crate::shared::Shared;
use crate::stats::ProtocolStats;

/// How long a snapshot is reused.
const FRESH: Duration = Duration::from_millis(900);

/// Returns an event with a snapshot that is at most about a second old.
pub fn event(shared: &Shared) -> Bytes {
    let mut last = shared.http.last.lock().unwrap_or_else(|lock| lock.into_inner());
    if last.taken.is_none_or(|taken| taken.elapsed() >= FRESH) {
        last.event = format!("data: {}\n\n", look(shared, &mut last.stats)).into();
        last.taken = Some(Instant::now());
    }
    last.event.clone()
}

fn look(shared: &Shared, before: &mut Vec<ProtocolStats>) -> Value {
    let now: Vec<_> =
        Protocol::ALL.iter().map(|protocol| shared.counters(*protocol).stats()).collect();
    let protocols = Protocol::ALL.iter().zip(&now).enumerate().map(|(index, (protocol, stats))| {
        // Of the last second, or since the start.
        let recent = before.get(index).map_or_else(|| stats.clone(), |before| stats.since(before));
        let time_of = |share| recent.time_of(share).map(|time| time.as_secs_f64());
        json!({
            "name": protocol.name(),
            "accepted": stats.connections,
            "refused": stats.refused,
            "requests": stats.requests,
            "errors": stats.errors,
            "p50": time_of(0.5),
            "p99": time_of(0.99),
        })
    });
    let protocols: Vec<_> = protocols.collect();
    *before = now;
    let names = shared.names.list();
    let default = shared.names.default_name().map(|name| name.text());
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| of_name(name, default)).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime": shared.start.elapsed().as_secs_f64(),
        "connections": shared.seats.count(),
        "connections_limit": shared.limits.connections,
        "protocols": protocols,
        "names": shown,
        "names_not_shown": names.len().saturating_sub(SHOWN),
    })
}

fn of_name(name: &Name, default: Option<&str>) -> Value {
    let (mut ids, mut errors) = (json!({}), json!({}));
    for protocol in Protocol::ALL {
        let (issued, failed) = name.counters.get(protocol);
        ids[protocol.name()] = issued.into();
        errors[protocol.name()] = failed.into();
    }
    let mut value = json!({
        "name": name.text(),
        "is_default": default == Some(name.text()),
        "origin": name.origin(),
        "problem": name.problem(),
        "ids": ids,
        "errors": errors,
    });
    if let Issuer::Segment(handle) = name.issuer() {
        value["segment"] = of_segment(handle);
    } else if let Some(generator) = name.issuer().generator() {
        value["uids"] = of_generator(generator);
    }
    value
}

fn of_generator(generator: &CachedUidGenerator) -> Value {
    let stats = generator.stats();
    let lease = stats.lease.map(|lease| {
        json!({
            "time_left": lease.time_left.map(|left| left.as_secs_f64()),
            "horizon_left": lease.horizon_left.as_secs_f64(),
            "renewals": lease.renewals,
            "renewal_failures": lease.renewal_failures,
            "is_lost": lease.is_lost,
        })
    });
    json!({
        "layout": generator.layout().to_string(),
        "worker_id": stats.worker_id,
        "available": stats.ring.available,
        "capacity": stats.ring.capacity,
        "lead": stats.lead.as_secs_f64(),
        "lag": stats.lag.as_secs_f64(),
        "waits": stats.waits,
        "remaining_life": stats.remaining_life.as_secs_f64(),
        "lease": lease,
    })
}

fn of_segment(handle: &SegmentHandle) -> Value {
    let Ok(stats) = handle.stats() else { return json!({}) };
    json!({
        // A string, because JavaScript's numbers may not hold it.
        "position": stats.position.map(|id| id.to_string()),
        "left": stats.left,
        "segments": stats.segments,
        "step": stats.step,
        "table_step": stats.table_step,
        "loads": stats.loads,
        "load_failures": stats.load_failures,
    })
}
