//! Commands that only read need no right to write.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;

use crate::support::program::command;
use crate::support::{Home, Run};

const READING: [(&str, &str); 4] = [
    ("worker list --json", r#"[{"id":1,"#),
    ("worker leases --json", r#"[{"worker_id":2,"#),
    ("plan", "starts so far   2 in the table"),
    ("segment list --json", r#"[{"tag":"orders","#),
];

fn fill(home: &Home, place: &str) {
    for words in [
        "worker init --leases",
        "worker assign",
        "generate --worker lease",
        "segment create orders --step 5",
    ] {
        let run = home.run(&format!("{words} {place}"));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
    }
}

fn reads(run: impl Fn(&str) -> Run) {
    for (words, found) in READING {
        let run = run(words);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
        assert!(run.stdout.contains(found), "{words}: {run:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn of_a_file() {
    let home = Home::new();
    let folder = home.folder.path().join("d #1");
    fs::create_dir(&folder).expect("made");
    let file = folder.join("workers.db").into_os_string().into_string().expect("text");
    let url = format!("sqlite:{}", file.replace('#', "%23"));
    // Not by `fill`, which splits at spaces.
    let on_file = |words: &str| {
        let mut command = home.command(words);
        Run::of(command.arg("-u").arg(&url))
    };
    for words in ["worker init --leases", "worker assign", "generate --worker lease"] {
        assert_eq!(on_file(words).status, Some(0), "{words}");
    }
    assert_eq!(on_file("segment create orders --step 5").status, Some(0));
    let set = |folder_mode, mode| {
        for entry in fs::read_dir(&folder).expect("there") {
            let path = entry.expect("there").path();
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("mine");
        }
        fs::set_permissions(&folder, Permissions::from_mode(folder_mode)).expect("mine");
    };
    set(0o555, 0o444);
    // Root may write anything, so it drops its capabilities.
    let without_powers = |words: &str| {
        let script = format!(
            r#"if [ "$(id -u)" = 0 ]; then set -- setpriv --bounding-set=-all "$1"; fi
            exec "$@" {words} -u "$URL""#
        );
        let mut command = home.under_sh(&script);
        Run::of(command.env("URL", &url))
    };
    reads(without_powers);
    let refused = without_powers("worker assign");
    assert_eq!((refused.status, &*refused.stdout), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("must be writable"), "{refused:?}");
    set(0o755, 0o644);
    assert_eq!(on_file("worker assign").stdout, "3\n");
}

#[test]
fn of_a_mysql_server() {
    let (home, database) = (Home::new(), MariaDb::shared().database());
    fill(&home, &format!("-u {}", database.url()));
    let (name, user) = (database.name(), database.user());
    let server = database.server();
    server.execute(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {user}@'%'"));
    server.execute(&format!("GRANT SELECT ON {name}.* TO {user}@'%'"));
    reads(|words| Run::of(&mut command(&home, words, &database.url())));
}

#[test]
fn of_a_postgresql_server() {
    let (home, database) = (Home::new(), Postgres::shared().database());
    fill(&home, &format!("-u {}", database.url()));
    let user = format!("{}_reader", database.user());
    database.administer(&format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", database.password()));
    database.administer(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}"));
    let url = database.url_of(&user, &format!("127.0.0.1:{}", database.server().port()));
    reads(|words| Run::of(&mut command(&home, words, &url)));
}
