//! `uidring man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::urls;

/// The last sections of each page.
const MORE: &str = r#"
.SH "EXIT STATUS"
0 after success, 1 after a failure, 2 for wrong usage.
.SH ENVIRONMENT
.TP
UIDRING_URL
The URL of the store, unless a flag or a server\(aqs file of settings names one.
.SH FILES
Without a URL, worker ids come from uidring/workers.db and tags from uidring/segments.db, in XDG_DATA_HOME or else in
\(ti/.local/share.
.SH "SEE ALSO"
.BR uidring (1),
.BR uidring\-urls (1)
"#;

/// Writes a page for each command into the folder, and creates it if missing.
pub fn write(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(command, folder)?;
    }
    let page = Man::new(command.clone());
    // Replace what has the name. If it is a link, do not write to its target.
    let mut new = tempfile::Builder::new();
    #[cfg(unix)]
    new.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut new = new.tempfile_in(folder)?;
    page.render(&mut new)?;
    if command.get_name() == "urls" {
        new.write_all(preformatted(&urls::page()).as_bytes())?;
    }
    new.write_all(MORE.as_bytes())?;
    new.flush()?;
    new.persist(folder.join(page.get_filename()))?;
    Ok(())
}

/// A section with the lines of a text as they are.
fn preformatted(text: &str) -> String {
    // A line that begins with a dot or an apostrophe would be a request.
    let lines = text.lines().map(|line| format!("\\&{}\n", line.replace('\\', "\\e")));
    format!(".SH HELP\n.nf\n{}.fi\n", lines.collect::<String>())
}
