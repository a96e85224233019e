//! Leaf's monitor: `/cache` shows the tags in memory, `/db` the rows of the table.

use std::sync::Arc;
use std::thread;

use hyper::StatusCode;
use tokio::sync::oneshot;
use uidring::adapter::visible;
use uidring::segment::{SegmentTag, TagNumber};

use super::answer::{self, Answer, Answered};
use super::body::{Body, Room};
use crate::issuer::Issuer;
use crate::shared::Shared;

const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// `/cache`
pub fn cache(shared: &Shared, room: Room) -> Answer {
    let mut table = Table::new(
        "Tags in memory",
        &[
            "key",
            "init ok",
            "position",
            "next ready",
            "value",
            "left",
            "segments",
            "step",
            "step of the table",
        ],
    );
    for name in shared.names.list() {
        let Issuer::Segment(handle) = name.issuer() else { continue };
        let Ok(stats) = handle.stats() else { continue };
        // Which of Leaf's two alternating buffers would be in use.
        let used_up = stats.loads.saturating_sub(stats.segments as u64);
        let value = stats.position.map_or_else(|| "none".into(), |id| id.to_string());
        table.row(&[
            name.text(),
            if stats.loads > 0 { "true" } else { "false" },
            if used_up % 2 == 0 { "0" } else { "1" },
            if stats.segments > 1 { "true" } else { "false" },
            &value,
            &stats.left.to_string(),
            &stats.segments.to_string(),
            &stats.step.to_string(),
            &stats.table_step.to_string(),
        ]);
    }
    table.answer(room)
}

/// `/db`
pub async fn table(shared: &Shared) -> Answered {
    let Some(rows) = shared.names.rows().map(Arc::clone) else {
        let text = "this server knows no table to show";
        return Err(answer::error(StatusCode::NOT_FOUND, text));
    };
    // One reader at a time, until the last piece is written, whatever clients do while the database is slow.
    let Ok(permit) = Arc::clone(&shared.http.table).try_acquire_owned() else {
        let text = "the table is being read for somebody else; try again";
        return Err(answer::error(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let (sender, receiver) = oneshot::channel();
    let read = move || {
        // If the receiver is gone, so is the client.
        let _ = sender.send((rows(), permit));
    };
    let thread = thread::Builder::new().name("uidring-serve-table".into()).spawn(read);
    let problem = match (thread, receiver.await) {
        (Ok(_), Ok((Ok(rows), room))) => return Ok(of_rows(&rows, room)),
        (Ok(_), Ok((Err(error), _))) => uidring::adapter::Chain(&error).to_string(),
        (Err(error), _) => error.to_string(),
        (Ok(_), Err(_)) => "reading it has panicked".into(),
    };
    let text = format!("the table could not be read: {problem}");
    Err(answer::error(StatusCode::SERVICE_UNAVAILABLE, text))
}

fn of_rows(rows: &[SegmentTag], room: Room) -> Answer {
    let heads = ["biz_tag", "max_id", "step", "description", "update_time"];
    let mut table = Table::new("Rows of the table", &heads);
    for row in rows {
        table.row(&[
            &row.tag,
            &number(row.max_id),
            &number(row.step),
            row.description.as_deref().unwrap_or_default(),
            &row.update_time.map_or_else(String::new, |time| time.to_string()),
        ]);
    }
    table.answer(room)
}

fn number(column: TagNumber) -> String {
    column.map_or_else(|why| format!("({why})"), |number| number.to_string())
}

struct Table(String);

impl Table {
    fn new(title: &str, heads: &[&str]) -> Self {
        let mut table = Self(format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title} - uidring</title>\n<h1>{title}</h1>\n\
             <table border=\"1\" cellpadding=\"4\">\n<thead>"
        ));
        table.row_of("<th scope=\"col\">", "</th>", heads);
        table.0.push_str("</thead>\n<tbody>\n");
        table
    }

    fn row(&mut self, cells: &[&str]) {
        self.row_of("<td>", "</td>", cells);
        self.0.push('\n');
    }

    fn row_of(&mut self, before: &str, after: &str, cells: &[&str]) {
        self.0.push_str("<tr>");
        for cell in cells {
            self.0.push_str(before);
            escape(cell, &mut self.0);
            self.0.push_str(after);
        }
        self.0.push_str("</tr>");
    }

    fn answer(mut self, room: Room) -> Answer {
        self.0.push_str("</tbody>\n</table>\n</html>\n");
        answer::page(POLICY, Body::with_room(self.0, Some(room)))
    }
}

/// Appends arbitrary text to a page, escaped.
fn escape(text: &str, page: &mut String) {
    for char in visible(text).chars() {
        match char {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            char => page.push(char),
        }
    }
}
