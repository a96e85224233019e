//! Compares the clocks of server and host.

use std::time::Duration;

use uidring::Timestamp;

use super::problem::Problem;

/// Compares the server's clock with this host's, read before and after it.
///
/// # Errors
///
/// [`Problem::ClockDiffers`] if they differ by more than `limit` at every moment in between.
pub fn compare([before, theirs, after]: [Timestamp; 3], limit: Duration) -> Result<(), Problem> {
    let ours = theirs.max(before).min(after);
    let apart = ours.saturating_since(theirs).max(theirs.saturating_since(ours));
    match apart > limit {
        true => Err(Problem::ClockDiffers { ours, theirs, limit }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_in_between_counts_that_favours_both() {
        for (clocks, is_good) in [
            ([10_000, 10_000, 10_000], true),
            ([10_000, 9_000, 10_001], true),
            ([10_000, 8_999, 10_001], false),
            ([10_000, 30_000, 45_000], true),
            ([10_000, 46_000, 45_000], true),
            ([10_000, 46_001, 45_000], false),
        ] {
            let compared = compare(clocks.map(Timestamp::from_millis), Duration::from_secs(1));
            assert_eq!(compared.is_ok(), is_good, "{clocks:?}");
        }
    }
}
