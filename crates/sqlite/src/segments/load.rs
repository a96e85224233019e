//! Loads segments from a SQLite file.

use rusqlite::{OptionalExtension, Transaction, params};
use uidring::Error;
use uidring::segment::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring_store::{MOST_TOGETHER, SegmentTable};

use super::{SqliteSegments, number, shown};
use crate::file::Opened;
use crate::format::{self, Problem};

impl SegmentStore for SqliteSegments {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.list_tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let (mut connection, mut busy) = (None, None::<Error>);
        let starts = (0..).step_by(MOST_TOGETHER);
        for (start, requests) in starts.zip(wanted.chunks(MOST_TOGETHER)) {
            if busy.is_none() && requests.len() > 1 {
                match self.load_together(&mut connection, requests) {
                    Ok(done) => {
                        (start..).zip(done).for_each(|(index, done)| loaded(index, done));
                        continue;
                    }
                    Err(LoadError::Store(error)) => busy = Some(error),
                    // One of the requests may be the cause: try each alone.
                    Err(_) => {}
                }
            }
            for (index, request) in (start..).zip(requests) {
                // The file's lock is the same for all tags, so wait for it only once.
                if let Some(again) = busy.take() {
                    busy = again.store().map(|error| self.file.repeated(error));
                    loaded(index, Err(LoadError::Store(again)));
                    continue;
                }
                let done = self.load_one(&mut connection, request);
                if let Err(LoadError::Store(error)) = &done {
                    busy = error.store().map(|error| self.file.repeated(error));
                }
                loaded(index, done);
            }
        }
    }
}

impl SqliteSegments {
    /// Reserves a range and commits it to the disk.
    fn load_one(
        &self,
        connection: &mut Option<Opened>,
        request: &SegmentRequest,
    ) -> Result<LoadedSegment, LoadError> {
        let opened = self.opened(connection)?;
        let done = self.file.try_write(opened, |transaction| reserve(transaction, request));
        done.map_err(|problem| self.load_error(problem))?
    }

    /// Reserves a range for each request in one commit.
    fn load_together(
        &self,
        connection: &mut Option<Opened>,
        requests: &[SegmentRequest],
    ) -> Result<Vec<Result<LoadedSegment, LoadError>>, LoadError> {
        let opened = self.opened(connection)?;
        let done = self.file.try_write(opened, |transaction| {
            let done = requests.iter().map(|request| reserve(transaction, request));
            let done = done.collect::<Result<Vec<_>, Problem>>()?;
            Ok(if done.iter().any(Result::is_ok) { Ok(done) } else { Err(done) })
        });
        Ok(done.map_err(|problem| self.load_error(problem))?.unwrap_or_else(|refused| refused))
    }

    /// Returns the connection of a call, which the first load opens.
    fn opened<'a>(&self, connection: &'a mut Option<Opened>) -> Result<&'a mut Opened, LoadError> {
        match connection {
            Some(opened) => Ok(opened),
            none => Ok(none.insert(self.file.open("leaf_alloc").map_err(file_error)?)),
        }
    }

    /// Tells problems that may pass, such as a lock or a full disk, from those that do not.
    fn load_error(&self, problem: Problem) -> LoadError {
        let error = self.file.error("written", problem);
        let may_pass = matches!(&error, Error::Store(error) if error.may_pass());
        if may_pass { LoadError::Store(error) } else { LoadError::Refused(error) }
    }
}

fn reserve(
    transaction: &Transaction<'_>,
    request: &SegmentRequest,
) -> Result<Result<LoadedSegment, LoadError>, Problem> {
    let tag = &request.tag;
    let row = transaction
        .prepare_cached("SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?1")?
        .query_row([tag], |row| Ok((number(row.get_ref(0)?), number(row.get_ref(1)?))))
        .optional()?;
    let Some((max_id, step)) = row else {
        return Ok(Err(LoadError::NoSuchTag { tag: tag.clone() }));
    };
    let range = match request.range(max_id, step) {
        Ok(range) => range,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut update = transaction.prepare_cached(
        "UPDATE leaf_alloc SET max_id = ?1, update_time = CURRENT_TIMESTAMP
         WHERE biz_tag = ?2 AND max_id = ?3",
    )?;
    let rows = update.execute(params![range.end.cast_signed(), tag, range.start.cast_signed()])?;
    if rows != 1 {
        return format::unusable(format!(
            "a load of tag `{tag}` changed {rows} rows and not 1: biz_tag has to be the primary key"
        ));
    }
    let look = "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?1";
    let now = transaction
        .prepare_cached(look)?
        .query_row([tag], |row| Ok(number(row.get_ref(0)?)))
        .optional()?;
    if now != Some(Ok(range.end.cast_signed())) {
        return format::unusable(format!(
            "max_id of tag `{tag}` was set to {} and reads {}: leaf_alloc has to be without triggers that change it",
            range.end,
            shown(now)
        ));
    }
    Ok(Ok(range))
}

fn file_error(error: Error) -> LoadError {
    if error.may_pass() { LoadError::Store(error) } else { LoadError::Refused(error) }
}
