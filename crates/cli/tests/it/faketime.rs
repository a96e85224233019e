//! The program with a wall clock that is wrong or is set while it runs. Debian's faketime library replaces the
//! operating system's clock.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command};
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};

use crate::support::elsewhen::Elsewhen;

const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn uids(text: &str) -> Vec<Uid> {
    text.lines().map(|line| line.parse().expect("a uid")).collect()
}

fn time_of(uid: Uid) -> Timestamp {
    Layout::default().decode(uid).expect("of the default layout").timestamp
}

/// A program whose output is read in portions, so that it waits in between.
struct Slow {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Slow {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    fn read(&mut self, lines: usize) -> Vec<Uid> {
        let lines = self.output.by_ref().lines().take(lines);
        lines.map(|line| line.expect("reads").parse().expect("a uid")).collect()
    }

    /// Returns the rest of the output, and how the program ended.
    fn finish(mut self) -> (Vec<Uid>, Option<i32>, String) {
        let rest = self.read(usize::MAX);
        let ended = self.child.wait_with_output().expect("ends");
        (rest, ended.status.code(), String::from_utf8(ended.stderr).expect("UTF-8"))
    }
}

#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn a_clock_before_the_epoch_is_refused_and_costs_no_worker_id() {
    let elsewhen = Elsewhen::new(-20 * YEAR.as_secs() as i64);
    for generator in ["cached", "clock"] {
        let run = elsewhen
            .run(&format!("generate -u sqlite:workers.db?mode=rwc --generator {generator}"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""));
        assert!(run.stderr.contains("before the layout's epoch"), "{}", run.stderr);
        assert!(!elsewhen.has("workers.db"));
    }
    elsewhen.set(0);
    let run = elsewhen.run("generate -u sqlite:workers.db?mode=rwc");
    let fields = Layout::default().decode(uids(&run.stdout)[0]).expect("its own");
    assert_eq!((run.status, fields.worker_id), (Some(0), 1), "the first there is: {}", run.stderr);
}

#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn a_clock_after_the_layouts_end_is_refused_with_the_day() {
    let elsewhen = Elsewhen::new(0);
    let left = Layout::default().remaining_life(SystemClock.now()).as_secs() as i64;
    elsewhen.set(left + 86_400);
    for generator in ["cached", "clock"] {
        let run = elsewhen
            .run(&format!("generate -u sqlite:workers.db?mode=rwc --generator {generator}"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""));
        assert!(run.stderr.contains("ended on 2034-07-04"), "{}", run.stderr);
        assert!(!elsewhen.has("workers.db"));
    }
    // An hour earlier it works, and warns.
    elsewhen.set(left - 3_600);
    let run = elsewhen.run("generate -u sqlite:workers.db?mode=rwc");
    assert_eq!((run.status, uids(&run.stdout).len()), (Some(0), 1));
    assert!(run.stderr.contains("2034-07-04"), "{}", run.stderr);
}

#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn a_clock_that_is_years_ahead_is_believed() {
    let ahead = 3 * YEAR;
    let elsewhen = Elsewhen::new(ahead.as_secs() as i64);
    for generator in ["cached", "clock"] {
        let before = SystemClock.now().saturating_add(ahead);
        let words = format!("generate -n 5 -u sqlite:workers.db?mode=rwc --generator {generator}");
        let run = elsewhen.run(&words);
        let after = SystemClock.now().saturating_add(ahead);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""));
        for uid in uids(&run.stdout) {
            let told = time_of(uid);
            assert!(before.saturating_since(told) <= Duration::from_secs(1), "{told}");
            assert!(told <= after, "{told}");
        }
    }
}

#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn the_ring_goes_on_when_the_clock_is_set_back() {
    const COUNT: usize = 2_000_000;
    let elsewhen = Elsewhen::new(0);
    let words = format!("generate -q -u sqlite:workers.db?mode=rwc --generator cached -n {COUNT}");
    let mut program = Slow::start(elsewhen.command(&words));
    let mut all = program.read(200_000);
    elsewhen.set(-(HOUR.as_secs() as i64));
    all.extend(program.read(800_000));
    elsewhen.set(-3 * HOUR.as_secs() as i64);
    all.extend(program.read(500_000));
    elsewhen.set(HOUR.as_secs() as i64);
    let (rest, status, stderr) = program.finish();
    all.extend(rest);
    assert_eq!((status, &*stderr), (Some(0), ""));
    assert_eq!(all.len(), COUNT);
    assert!(all.is_sorted_by(|a, b| a < b), "in order, and nothing twice");
    let lead = time_of(all[COUNT - 1]).saturating_since(SystemClock.now());
    assert!(lead > HOUR / 2, "the ring has seen the clock go forwards: {lead:?}");
}

#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn the_generator_on_the_clock_says_by_how_much_it_went_back() {
    let elsewhen = Elsewhen::new(0);
    // A second has so many uids that the pipe stops the program before it waits for the next one, and before it
    // finishes.
    let words = "generate -u worker:1 --start-after 1048576 --layout 31/10/20 \
                 --generator clock -n 50000000";
    let mut program = Slow::start(elsewhen.command(words));
    let mut all = program.read(10_000);
    elsewhen.set(-(HOUR.as_secs() as i64));
    let (rest, status, stderr) = program.finish();
    all.extend(rest);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(all.len() < 10_000_000 && all.is_sorted_by(|a, b| a < b), "good until then");
    // A note about the run's duration comes first.
    let (_, text) = stderr.split_once("\nerror: ").expect(&stderr);
    let told = format!("{} ids were printed, the last is {}", all.len(), all[all.len() - 1]);
    assert!(text.contains(&told), "{text}");
    let (_, behind) = text.split_once("the clock moved backwards: it is ").expect(&stderr);
    let (seconds, _) = behind.split_once("s behind").expect(&stderr);
    let seconds: u64 = seconds.parse().expect("whole ticks");
    // Less the time passed since then.
    assert!((3_500..=3_600).contains(&seconds), "{stderr}");
}

/// A fresh worker id keeps the second start from repeating uids.
#[test]
#[ignore = "needs libfaketime: run scripts/test"]
fn a_start_after_the_clock_was_set_back_repeats_nothing() {
    let elsewhen = Elsewhen::new(0);
    let mut all = Vec::new();
    for generator in ["cached", "clock"] {
        for offset in [0, -2, 0, -2] {
            elsewhen.set(offset);
            let words =
                format!("generate -n 8000 -u sqlite:workers.db?mode=rwc --generator {generator}");
            let run = elsewhen.run(&words);
            assert_eq!((run.status, &*run.stderr), (Some(0), ""));
            all.extend(uids(&run.stdout));
        }
    }
    assert_eq!(all.len(), 64_000);
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "no id in common");
}
