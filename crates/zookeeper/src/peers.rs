//! Compares clocks with the other instances.

use std::time::Duration;

use uidring::Timestamp;

use super::error::ZooKeeperError;
use super::nodes::{Endpoint, instance_and_number};
use super::registry::Registry;
use super::tree::Tree;

/// Fails if this host's clock is further than the limit from the median of the live instances' clocks.
///
/// Their timestamps are as old as their last uploads. So each, like this host's own, is compared with the time at which
/// the servers stored it.
pub async fn compare(
    tree: &impl Tree,
    registry: &Registry,
    clock_ahead: i64,
    limit: Duration,
) -> Result<(), ZooKeeperError> {
    let own = registry.node_name();
    let live = tree.children(&registry.temporary()).await?;
    let forever = registry.forever();
    let nodes = tree.children(&forever).await?.into_iter().filter(|node| {
        let instance = instance_and_number(node).map(|(instance, _)| instance);
        instance.is_some_and(|instance| instance != own && live.iter().any(|l| l == instance))
    });
    let peers: Vec<String> = nodes.map(|node| format!("{forever}/{node}")).collect();
    let read = tree.read_all(&peers).await.into_iter();
    let mut ahead: Vec<i64> = read
        .filter_map(|(data, stat)| {
            Some(millis_ahead(Endpoint::from_json(&data)?.timestamp, stat.written_at))
        })
        .collect();
    let Some(median) = median(&mut ahead) else { return Ok(()) };
    let by_millis = clock_ahead.saturating_sub(median);
    if Duration::from_millis(by_millis.unsigned_abs()) <= limit {
        return Ok(());
    }
    Err(ZooKeeperError::PeerClocksDiffer { peers: ahead.len(), by_millis, limit })
}

/// Returns how far a clock was ahead of the servers' when both timed the same write.
pub fn millis_ahead(by_clock: Timestamp, by_servers: Timestamp) -> i64 {
    by_clock.as_millis().saturating_sub(by_servers.as_millis())
}

/// Returns the median, the lower middle one of an even number of values.
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
