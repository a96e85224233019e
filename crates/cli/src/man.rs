//! `uidring man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

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
    new.flush()?;
    new.persist(folder.join(page.get_filename()))?;
    Ok(())
}
