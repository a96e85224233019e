//! The clocks of the other instances.

use std::time::Duration;

use super::Registry;
use super::nodes::{Endpoint, instance_and_number};
use super::problem::{Problem, Refusal};
use super::tree::Tree;

/// Refuses if this host's clock is further from the median of the live instances' than the limit.
///
/// Their timestamps are as old as their last upload is; so each is compared with the time at which
/// the servers wrote it down, and so is this host's own.
pub async fn compare(
    tree: &impl Tree,
    registry: &Registry,
    clock_ahead: i64,
    limit: Duration,
) -> Result<(), Problem> {
    let (paths, own) = (&registry.paths, registry.node_name());
    let live = tree.children(&paths.temporary()).await?;
    let mut peers: Vec<String> = tree.children(&paths.forever()).await?;
    peers.retain(|node| {
        let instance = instance_and_number(node).map(|(instance, _)| instance);
        instance.is_some_and(|instance| instance != own && live.iter().any(|l| l == instance))
    });
    for peer in &mut peers {
        *peer = format!("{}/{peer}", paths.forever());
    }
    // One that has gone meanwhile, or that nobody can read, is no peer.
    let mut ahead: Vec<i64> = tree
        .read_all(&peers)
        .await
        .into_iter()
        .filter_map(|(data, stat)| {
            Some(Endpoint::from_json(&data)?.timestamp.saturating_sub(stat.written_at))
        })
        .collect();
    let Some(median) = median(&mut ahead) else { return Ok(()) };
    let by_millis = clock_ahead.saturating_sub(median);
    if Duration::from_millis(by_millis.unsigned_abs()) <= limit {
        return Ok(());
    }
    Err(Refusal::ClocksDiffer { peers: ahead.len(), by_millis, limit }.into())
}

/// Of an even number of them, the lower one in the middle.
fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_wrong_clock_does_not_move_the_median() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [9, 1]), Some(1));
        assert_eq!(median(&mut [3, 900_000, 1]), Some(3));
    }
}
