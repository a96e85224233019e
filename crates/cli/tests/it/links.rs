//! Links that another user put where programs of the superuser create or change files. Without a superuser's rights,
//! the links are this user's own, and the same holds.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::PathBuf;

use crate::support::{Home, Run};

const NOBODY: u32 = 65_534;

/// Another user's folder, and a file that only this user may access.
struct Foreign {
    home: Home,
    secret: PathBuf,
}

impl Foreign {
    fn new(secret: &str) -> Self {
        let home = Home::new();
        let path = home.folder.path().join("secret");
        fs::write(&path, secret).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        let foreign = Self { home, secret: path };
        fs::create_dir(foreign.path("")).expect("made");
        foreign.give("");
        foreign
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.folder.path().join("foreign").join(name)
    }

    /// Gives it to the other user, if allowed.
    fn give(&self, name: &str) {
        let _ = lchown(self.path(name), Some(NOBODY), Some(NOBODY));
    }

    fn link(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
        symlink(&self.secret, self.path(name)).expect("linked");
        self.give(name);
    }

    /// Runs the program, and returns its status and messages. Checks that the secret is unchanged.
    fn run(&self, words: &str) -> (Option<i32>, String) {
        let state = || {
            let about = fs::metadata(&self.secret).expect("there");
            let text = fs::read(&self.secret).expect("reads");
            (about.uid(), about.gid(), about.mode(), about.ino(), text)
        };
        let before = state();
        let run = Run::of(&mut self.home.command(words));
        assert_eq!(state(), before, "{words}: {run:?}");
        (run.status, run.stderr)
    }
}

/// The file of the count gets the database's owner and mode. A link's target must not.
#[test]
fn the_count_of_commits_is_no_link() {
    for secret in ["of the superuser's", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ""] {
        let foreign = Foreign::new(secret);
        foreign.home.stdout("worker assign -u sqlite:foreign/w.db?mode=rwc");
        foreign.give("w.db");
        fs::set_permissions(foreign.path("w.db"), Permissions::from_mode(0o666)).expect("set");
        foreign.link("w.db-commits");
        for words in ["worker assign", "generate", "segment create a --step 5"] {
            let (status, error) = foreign.run(&format!("{words} -u sqlite:foreign/w.db"));
            assert_eq!(status, Some(1), "{words}: {error}");
            assert!(error.contains("symbolic link"), "{words}: {error}");
        }
        fs::remove_file(foreign.path("w.db-commits")).expect("removed");
        symlink(foreign.path("nothing"), foreign.path("w.db-commits")).expect("linked");
        assert_eq!(foreign.run("worker assign -u sqlite:foreign/w.db").0, Some(1));
        assert!(!foreign.path("nothing").exists());

        fs::remove_file(foreign.path("w.db-commits")).expect("removed");
        fs::hard_link(&foreign.secret, foreign.path("w.db-commits")).expect("linked");
        if fs::metadata(foreign.path("w.db")).expect("there").uid() == NOBODY {
            let (status, error) = foreign.run("worker assign -u sqlite:foreign/w.db");
            assert_eq!(status, Some(1), "{error}");
            assert!(error.contains("hard link to a file of another user"), "{error}");
        }
    }
}

#[test]
fn output_is_written_through_no_link_to_a_file() {
    let foreign = Foreign::new("");
    foreign.link("ids");
    let (status, error) = foreign.run("generate -u worker:1 -q -o foreign/ids");
    assert_eq!(status, Some(1));
    assert!(error.contains("it is a link to a file"), "{error}");
    fs::remove_file(foreign.path("ids")).expect("removed");
    symlink(foreign.path("nothing"), foreign.path("ids")).expect("linked");
    let (status, error) = foreign.run("generate -u worker:1 -q -o foreign/ids");
    assert_eq!(status, Some(1));
    assert!(error.contains("it is a link to nothing"), "{error}");
    assert!(!foreign.path("nothing").exists());
    fs::remove_file(foreign.path("ids")).expect("removed");
    fs::hard_link(&foreign.secret, foreign.path("ids")).expect("linked");
    let (status, error) = foreign.run("generate -u worker:1 -q -o foreign/ids");
    assert_eq!(status, Some(1));
    assert!(error.contains("hard links"), "{error}");
    // Links to devices are allowed.
    let run = foreign.home.run("generate -u worker:1 -q -o /dev/stdout");
    assert_eq!((run.status, run.stdout.lines().count()), (Some(0), 1), "{run:?}");
}

#[test]
fn man_pages_replace_links() {
    let foreign = Foreign::new("of the superuser's");
    foreign.link("uidring.1");
    foreign.link("uidring-generate.1");
    assert_eq!(foreign.run("man foreign").0, Some(0));
    for name in ["uidring.1", "uidring-generate.1"] {
        let page = fs::symlink_metadata(foreign.path(name)).expect("there");
        assert!(page.is_file() && page.mode() & 0o444 == 0o444, "{name}: {page:?}");
    }
}
