//! Loads segments from a SQLite file.

use rusqlite::Transaction;
use uidring::Error;
use uidring::segment::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring_store::{MOST_TOGETHER, SegmentTable};

use super::{SqliteSegments, change_row, check_kept, numbers};
use crate::file::Opened;
use crate::format::Problem;

/// A reserved range, or why the tag has none.
type Reserved = Result<LoadedSegment, LoadError>;

impl SegmentStore for SqliteSegments {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.list_tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let mut call = Call { segments: self, opened: None, busy: None };
        let starts = (0..).step_by(MOST_TOGETHER);
        for (start, requests) in starts.zip(wanted.chunks(MOST_TOGETHER)) {
            call.load(start, requests, loaded);
        }
    }
}

/// A call of [`load`](SegmentStore::load).
struct Call<'a> {
    segments: &'a SqliteSegments,
    /// The connection, which the first load opens.
    opened: Option<Opened>,
    /// Set after a failure that may pass. All tags share the file's lock, so wait for it once per call.
    busy: Option<Error>,
}

impl Call<'_> {
    fn load(&mut self, start: usize, requests: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let done = match &self.busy {
            Some(error) => Err(error.clone()),
            None => self.reserve(requests),
        };
        match done {
            Ok(done) => (start..).zip(done).for_each(|(index, done)| loaded(index, done)),
            Err(error) if error.may_pass() => {
                let indexes = (start..).take(requests.len());
                indexes.for_each(|index| loaded(index, Err(LoadError::Store(error.clone()))));
                self.busy = Some(error);
            }
            // One of the requests may be the cause: try each alone.
            Err(_) if requests.len() > 1 => {
                let alone = (start..).zip(requests.chunks(1));
                alone.for_each(|(index, request)| self.load(index, request, loaded));
            }
            Err(error) => loaded(start, Err(LoadError::Refused(error))),
        }
    }

    /// Reserves a range for each request, in one commit.
    fn reserve(&mut self, requests: &[SegmentRequest]) -> Result<Vec<Reserved>, Error> {
        let file = &self.segments.file;
        let opened = match &mut self.opened {
            Some(opened) => opened,
            none => none.insert(file.open("leaf_alloc")?),
        };
        file.write_if(
            opened,
            |done: &Vec<Reserved>| done.iter().any(Result::is_ok),
            |transaction| requests.iter().map(|request| reserve(transaction, request)).collect(),
        )
    }
}

fn reserve(transaction: &Transaction<'_>, request: &SegmentRequest) -> Result<Reserved, Problem> {
    let tag = &request.tag;
    let Some((max_id, step)) = numbers(transaction, tag)? else {
        return Ok(Err(LoadError::NoSuchTag { tag: tag.clone() }));
    };
    let range = match request.range(max_id, step) {
        Ok(range) => range,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let [start, end] = [range.start, range.end].map(u64::cast_signed);
    let update = "UPDATE leaf_alloc SET max_id = ?1, update_time = CURRENT_TIMESTAMP
                  WHERE biz_tag = ?2 AND max_id = ?3";
    change_row(transaction, tag, update, (end, tag, start))?;
    check_kept(transaction, tag, Ok(end), None)?;
    Ok(Ok(range))
}
