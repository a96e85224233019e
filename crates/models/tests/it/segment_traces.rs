//! Random histories of a tag's row, ranges loaded from it, and takers. Each step has to be one of the model's. Table,
//! range and chain are the code's own; messages and processes are simulated.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use uidring::TakeError;
use uidring::segment::{
    LoadError, LoadedSegment, MemorySegments, PushError, SegmentChain, SegmentRequest,
    SegmentStore, SegmentTag,
};
use uidring_models::Full;
use uidring_models::segments::{Action, Generator, Segments, State};

const TAG: &str = "tag";

const GREATEST: u64 = i64::MAX as u64;

/// docs/lease-model.md, "Traces", says what is compared.
#[test]
fn histories_of_segment_loads_are_histories_of_the_model() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (seed, count) = (number("UIDRING_LEASES_SEED"), number("UIDRING_LEASES_COUNT"));
    let count = count.unwrap_or(if seed.is_some() { 1 } else { 2_000 });
    let first = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut counts = [0; 4];
    for number in 0..count {
        let seed = first.wrapping_add(number);
        let mut history = History::new(Rng::with_seed(seed));
        let lived = catch_unwind(AssertUnwindSafe(|| (0..200).for_each(|_| history.step())));
        let replay = "cargo test -p uidring-models histories_of_segment";
        assert!(lived.is_ok(), "history {number}; replay: UIDRING_LEASES_SEED={seed} {replay}");
        let History { taken, refused, used_up, unheard, .. } = history;
        counts.iter_mut().zip([taken, refused, used_up, unheard]).for_each(|(all, n)| *all += n);
    }
    println!("{count} histories: taken, refused, used up, unheard: {counts:?}");
    assert!(count < 1_000 || counts.iter().all(|&n| n > count / 100), "{counts:?}");
}

struct Process {
    start: u8,
    chain: SegmentChain,
    /// The request, and the table's answer to it.
    call: Option<(SegmentRequest, Option<LoadedSegment>)>,
}

struct History {
    rng: Rng,
    table: MemorySegments,
    processes: Vec<Process>,
    /// Loads that nobody waits for, but that may still be performed.
    late: Vec<SegmentRequest>,
    model: Segments<Full>,
    state: State<Full>,
    taken: u64,
    refused: u64,
    used_up: u64,
    unheard: u64,
}

impl History {
    fn new(mut rng: Rng) -> Self {
        let model = Segments {
            generators: usize::MAX,
            starts: u8::MAX,
            greatest: GREATEST,
            steps: u64::MAX,
            depth: usize::MAX,
            changes: u8::MAX,
            may_lower: rng.u8(0..4) == 0,
            mutation: None,
        };
        // Some histories reach the end of the column.
        let max_id = if rng.u8(0..4) == 0 { GREATEST - rng.u64(1..200) } else { rng.u64(1..1_000) };
        let history = Self {
            table: MemorySegments::new(),
            processes: Vec::new(),
            late: Vec::new(),
            state: model.start(max_id),
            model,
            taken: 0,
            refused: 0,
            used_up: 0,
            unheard: 0,
            rng,
        };
        history.set(max_id, 1);
        history
    }

    /// Sets the row by hand.
    fn set(&self, max_id: u64, step: u64) {
        self.table.remove(TAG);
        let row = SegmentTag::new(TAG).max_id(max_id as i64).step(step as i64);
        assert!(self.table.create(row).expect("positive"));
    }

    fn row(&self) -> SegmentTag {
        self.table.clone().tags().expect("a table").remove(0)
    }

    /// Performs an action of the model, or ends the history.
    fn act(&mut self, action: Action<Full>) {
        let before = self.state.clone();
        let Some(()) = self.model.act(&mut self.state, action.clone()) else {
            panic!("{action:?} is not possible in the model's state: {before:#?}");
        };
        let State { repeated, uncovered, backwards, .. } = self.state;
        let is_broken = (repeated || uncovered) && !self.model.may_lower || backwards;
        assert!(!is_broken, "{action:?} breaks a property of the model: {before:#?}");
    }

    fn step(&mut self) {
        match self.rng.u8(0..100) {
            0..35 => self.take(),
            35..45 => self.fill(),
            45..60 => self.ask(),
            60..75 => self.perform(),
            75..84 => self.hear(),
            84..88 => self.fail(),
            88..91 => self.perform_late(),
            91..95 if self.state.starts < 200 => self.start(),
            95..97 => self.crash(),
            97 => self.change(),
            _ => {}
        }
        self.compare();
    }

    fn some(&mut self) -> Option<usize> {
        (!self.processes.is_empty()).then(|| self.rng.usize(0..self.processes.len()))
    }

    fn start(&mut self) {
        if self.processes.len() < 3 {
            self.act(Action::Start);
            let chain = SegmentChain::new(50).expect("possible");
            self.processes.push(Process { start: self.state.starts, chain, call: None });
        }
    }

    fn crash(&mut self) {
        let Some(index) = self.some() else { return };
        let Process { start, call, .. } = self.processes.remove(index);
        self.late.extend(call.filter(|(_, answer)| answer.is_none()).map(|(request, _)| request));
        self.act(Action::Crash { generator: start });
    }

    fn ask(&mut self) {
        let Some(index) = self.some() else { return };
        let step = self.rng.u64(0..12);
        let process = &mut self.processes[index];
        process.call.get_or_insert((SegmentRequest { tag: TAG.into(), step }, None));
    }

    /// The table reads its row and reserves a range in one step.
    fn load(&mut self, request: &SegmentRequest, generator: u8) -> Option<LoadedSegment> {
        let row = self.row();
        let mut answer = None;
        self.table.clone().load(std::slice::from_ref(request), &mut |_, done| answer = Some(done));
        match answer.expect("an answer") {
            Ok(range) => {
                // Compute the step from the model, not from the range: a load reserves what it was asked for, else the
                // table's step, else what is left.
                let step = row.step.expect("a number") as u64;
                let left = self.model.greatest - self.state.max_id;
                let step = [request.step.max(step), step].into_iter().find(|step| *step <= left);
                let step = step.unwrap_or(left);
                self.act(Action::Load { generator, step });
                let waiting = self.state.generators.iter().find(|other| other.start == generator);
                let request = waiting.and_then(|other| other.call.as_ref()).expect("asked").request;
                self.act(Action::Perform(request));
                assert_eq!((range.start, range.end), (request.from, request.to), "the range");
                Some(range)
            }
            Err(LoadError::UsedUp { .. }) => {
                self.used_up += 1;
                let mut state = self.state.clone();
                let possible = self.model.act(&mut state, Action::Load { generator, step: 1 });
                assert!(possible.is_none(), "the model has one left: {:#?}", self.state);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn perform(&mut self) {
        let Some(index) = self.some() else { return };
        let Process { start, ref call, .. } = self.processes[index];
        let Some((request, None)) = call.clone() else { return };
        match self.load(&request, start) {
            Some(range) => self.processes[index].call = Some((request, Some(range))),
            None => self.processes[index].call = None,
        }
    }

    /// Nobody waits for it, as if its process had died.
    fn perform_late(&mut self) {
        if let Some(request) = self.late.pop() {
            self.act(Action::Start);
            let generator = self.state.starts;
            self.load(&request, generator);
            self.act(Action::Crash { generator });
        }
    }

    fn hear(&mut self) {
        let Some(index) = self.some() else { return };
        let process = &mut self.processes[index];
        let Some((_, Some(range))) = process.call else { return };
        process.call = None;
        let (generator, pushed) = (process.start, process.chain.push(range.start..range.end));
        let before = self.generator(generator).ranges.len();
        self.act(Action::Hear { generator });
        let is_accepted = self.generator(generator).ranges.len() > before;
        self.refused += u64::from(pushed.is_err());
        assert!(matches!(pushed, Ok(()) | Err(PushError::Backwards { .. })), "{pushed:?}");
        assert_eq!(pushed.is_ok(), is_accepted, "whether {range:?} is accepted");
    }

    fn fail(&mut self) {
        let Some(index) = self.some() else { return };
        let process = &mut self.processes[index];
        let generator = process.start;
        match process.call.take() {
            Some((_, Some(_))) => {
                self.unheard += 1;
                self.act(Action::Fail { generator });
            }
            // It may still be on its way.
            Some((request, None)) => self.late.push(request),
            None => {}
        }
    }

    fn change(&mut self) {
        let max_id = self.row().max_id.expect("a number");
        let (max_id, step) = (max_id as u64, self.rng.u64(1..8));
        let lowest = if self.model.may_lower { 1 } else { max_id };
        let to = self
            .rng
            .u64(lowest.max(max_id.saturating_sub(20))..=max_id.saturating_add(20).min(GREATEST));
        self.set(to, step);
        self.act(Action::Set { max_id: to });
    }

    fn take(&mut self) {
        let Some(index) = self.some() else { return };
        let Process { start: generator, ref chain, .. } = self.processes[index];
        match chain.try_take() {
            Ok(id) => self.took(generator, id),
            Err(TakeError::Empty) => self.is_empty(generator),
            Err(error) => panic!("{error}"),
        }
    }

    fn fill(&mut self) {
        let Some(index) = self.some() else { return };
        let mut ids = vec![0; self.rng.usize(1..30)];
        let Process { start: generator, ref chain, .. } = self.processes[index];
        let filled = chain.try_fill(&mut ids);
        for &id in &ids[..filled.unwrap_or(0)] {
            self.took(generator, id);
        }
        if filled != Ok(ids.len()) {
            self.is_empty(generator);
        }
    }

    fn took(&mut self, generator: u8, id: u64) {
        self.taken += 1;
        self.act(Action::Take { generator });
        assert_eq!(self.generator(generator).last, id, "what the model issues");
    }

    fn is_empty(&self, generator: u8) {
        let found = self.generator(generator);
        assert!(found.ranges.is_empty(), "nothing is left, but in the model: {found:?}");
    }

    fn generator(&self, start: u8) -> &Generator<Full> {
        self.state.generators.iter().find(|other| other.start == start).expect("it lives")
    }

    /// Compares what the code shows with the model.
    fn compare(&self) {
        assert_eq!(
            self.row().max_id.expect("a number") as u64,
            self.state.max_id,
            "max_id, and the model's"
        );
        for Process { start, chain, .. } in &self.processes {
            let ranges = &self.generator(*start).ranges;
            let left: u64 = ranges.iter().map(|(from, to)| to - from).sum();
            let stats = chain.stats();
            let next = ranges.front().map(|(from, _)| *from);
            assert_eq!((stats.left, stats.position), (left, next), "what is left, and the model's");
        }
    }
}
