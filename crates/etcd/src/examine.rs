//! Checks of a cluster before a start, which change nothing.

use serde_json::{Value, json};
use uidring_store::{Finding, Findings, StoreUse};

use crate::EtcdStore;
use crate::client::Client;
use crate::key_value::{get, put, version_below};

/// Examines a cluster for this use.
pub fn examine(store: &EtcdStore, wanted: StoreUse) -> Findings {
    let (mut findings, mut answers) = (Vec::new(), false);
    for endpoint in &store.endpoints {
        let mut member = store.clone();
        member.endpoints = vec![endpoint.clone()];
        match Client::new(&member).run(|client| client.post("maintenance/status", &json!({}))) {
            Ok(status) => {
                answers = true;
                findings.push(of_member(&member, &status));
            }
            Err(error) => findings.push(Finding::error("connection", &error)),
        }
    }
    if !answers {
        return Err(findings);
    }
    findings.push(store.password().finding());
    let all = ["counter", "nodes/", "leases/", "layout"].map(|name| store.key(name));
    let keys = if matches!(wanted, StoreUse::Lease(_)) { &all[..] } else { &all[..2] };
    let puts: Vec<_> = keys.iter().flat_map(|key| [put(key, ""), get(key)]).collect();
    // etcd checks the rights of both branches. The comparison never holds, so nothing is written.
    let never = version_below(&keys[0], 0);
    let compare = std::slice::from_ref(&never);
    match Client::new(store).run(|client| client.transact(compare, &puts, &[])) {
        Ok(_) => {
            let text = "the user may read and write the keys of the prefix";
            findings.push(Finding::good("rights", text));
            Ok(findings)
        }
        Err(error) => {
            findings.push(Finding::error("rights", &error));
            Err(findings)
        }
    }
}

/// What a member reports. Alarms concern the whole cluster.
fn of_member(member: &EtcdStore, status: &Value) -> Finding {
    let version = status["version"].as_str().unwrap_or("unknown");
    let errors: Vec<_> = status["errors"].as_array().into_iter().flatten().collect();
    let errors: Vec<_> = errors.iter().filter_map(|error| error.as_str()).collect();
    let has_leader = status["leader"].as_str().is_some_and(|leader| leader != "0");
    match &*errors {
        _ if !has_leader => Finding::fault(
            "connection",
            format!(
                "{member} knows no leader: a majority of the members has to be up and connected"
            ),
        ),
        [] => Finding::good("connection", format!("{member} answers, version {version}")),
        errors => Finding::fault(
            "alarms",
            format!(
                "{member}: {}; NOSPACE: compact and defragment, or raise --quota-backend-bytes, then `etcdctl alarm \
                 disarm`; CORRUPT: replace the member that differs before anything else",
                errors.join(", ")
            ),
        ),
    }
}
