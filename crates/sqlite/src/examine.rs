//! Examines a file before a start, without changing it.

use std::path::Path;

use uidring::adapter::Chain;
use uidring_store::{AnyStore, Finding, Findings, StoreUse, Verdict};

use crate::SqliteStore;
use crate::commits::END;
use crate::create::beside;
use crate::disk::bytes_free;
use crate::file::{SEGMENTS, WORKERS};
use crate::volume::{Keeps, doubt};

/// A disk with less is soon full: leases write all the time, and logs grow to some megabytes.
const LITTLE: u64 = 64 << 20;

pub fn examine(store: &SqliteStore, wanted: StoreUse) -> Findings {
    let (kind, keeps) = match wanted {
        StoreUse::Disposable | StoreUse::Lease(_) => (&WORKERS, Keeps::HostsIds),
        StoreUse::Ordinal(..) => (&WORKERS, Keeps::PodsOrdinal),
        StoreUse::Segments => (&SEGMENTS, Keeps::HostsIds),
    };
    let file = store.file(kind);
    let path = &file.path;
    let shown = path.display();
    let is_there = path.exists();
    let mut findings = vec![match store.check(wanted) {
        Err(error) => Finding::error("file", &error),
        Ok(()) if is_there => Finding::good("file", format!("{shown} is a file of uidring")),
        Ok(()) if wanted == StoreUse::Segments => Finding::fault(
            "file",
            format!("there is no file {shown}: `uidring segment create TAG --step S` creates it"),
        ),
        Ok(()) => match file.absolute_path().and_then(|path| file.check_folder(&path)) {
            Ok(()) => Finding::good("file", format!("the first start creates {shown}")),
            Err(error) => Finding::risk(
                "file",
                format!(
                    "{}; a start fails unless something, such as systemd, creates it first",
                    Chain(&error)
                ),
            ),
        },
    }];
    findings.extend(read_only(path));
    findings.extend(bytes_free(path).map(|left| match left < LITTLE {
        true => {
            let text = format!("{} KiB are left on the disk of {shown}: make room", left >> 10);
            Finding::risk("disk", text)
        }
        false => Finding::good("disk", format!("{} MiB are left", left >> 20)),
    }));
    // The check of the file reports a refusal.
    if let Ok(Some(why)) = doubt(path, keeps) {
        findings.push(Finding::risk(
            "disk",
            format!(
                "this is a container ({why}), and {shown} may end with it: keep the file on a volume; \
                 UIDRING_CONTAINER=0 says that this is no container"
            ),
        ));
    }
    match findings.iter().any(|finding| finding.verdict == Verdict::Fault) {
        true => Err(findings),
        false => Ok(findings),
    }
}

/// Finds what this account may not write: the file, the count of commits, or the folder, where SQLite creates its log.
#[cfg(unix)]
fn read_only(path: &Path) -> Option<Finding> {
    use rustix::fs::{Access, access};
    let whole = std::path::absolute(path).ok()?;
    let folder = whole.parent().unwrap_or(&whole);
    let files = [whole.clone(), beside(&whole, END), folder.to_owned()];
    let mut files = files.iter().filter(|file| file.exists());
    files.find_map(|file| {
        let refused = access(file, Access::READ_OK | Access::WRITE_OK).err()?;
        let text = format!("this account may not write {}: {refused}", file.display());
        Some(Finding::fault("rights", text))
    })
}

#[cfg(not(unix))]
fn read_only(_: &Path) -> Option<Finding> {
    None
}
