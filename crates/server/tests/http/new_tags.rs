//! Tags created while a server runs, beside names that do not exist.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator};
use uidring_server::Names;

use crate::served::{Answer, PATIENCE, Served, uids};

/// A table that takes longer to read than the server waits between two readings.
struct Slow(MemorySegments);

impl SegmentStore for Slow {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        thread::sleep(Duration::from_millis(150));
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.0.load(wanted, loaded);
    }
}

/// The longest wait of a request for the table.
const LOOK_FOR: Duration = Duration::from_secs(1);

fn slow(names: Names) -> (MemorySegments, Served) {
    let rows = MemorySegments::new();
    let generator = SegmentGenerator::builder(Slow(rows.clone())).build().expect("a generator");
    (rows, Served::start(names.with_segments(Arc::new(generator))))
}

#[test]
fn a_request_for_an_unknown_name_ends() {
    let (_, served) = slow(Names::new());
    for path in ["/v1/ids?name=nobody", "/v1/parse/1?name=nobody", "/v1/ids", "/v1/parse/1"] {
        assert_eq!(served.curl(path).status, 404, "{path}");
    }
    let answer = served.curl("/api/segment/get/nobody");
    assert!(answer.text().contains("there is no tag `nobody`"), "{}", answer.text());
}

#[test]
fn a_new_tag_is_found_whoever_else_asks() {
    let (rows, served) = slow(uids(80));
    for (path, is_found) in [
        ("/v1/ids?name=", (|answer| answer.status == 200) as fn(&Answer) -> bool),
        ("/api/segment/get/", |answer| answer.status == 200),
        ("/v1/parse/1?name=", |answer| answer.text().contains("a segment's ids")),
    ] {
        let begin = Instant::now();
        for number in 0.. {
            assert_eq!(served.curl("/v1/ids?name=nobody").status, 404);
            let tag = format!("{}{number}", path.len());
            rows.create(SegmentTag::new(&tag)).expect("a tag");
            let asked = Instant::now();
            if is_found(&served.curl(&format!("{path}{tag}"))) {
                break;
            }
            // On a busy machine, reading may take longer than a request waits.
            assert!(asked.elapsed() >= LOOK_FOR, "{path}{tag} was not waited for");
            assert!(begin.elapsed() < PATIENCE, "{path}{tag} is not found");
        }
    }
}
