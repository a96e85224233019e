//! What takes a look inside.

use std::thread;
use std::time::Duration;

use super::ClockedUidGenerator;
use crate::clock::Deadline;
use crate::waiting::Waiting;

#[test]
fn a_close_ends_a_nap_however_long() {
    const LONG: Duration = Duration::from_secs(60);
    let generator = ClockedUidGenerator::snowflake().worker_id(1).build().expect("builds");
    let end = Deadline::after(Some(LONG));
    thread::scope(|scope| {
        let napping = scope.spawn(|| generator.nap(LONG));
        // Most likely asleep by then; if it is not, the close is what it finds.
        thread::sleep(Duration::from_millis(20));
        generator.close();
        napping.join().expect("no panic");
    });
    assert_ne!(end.remaining(), Some(Duration::ZERO), "it was woken");
}
