//! The commands of docs/server-http.md.

use std::process::Command;

use crate::served::{Served, segments, uids};

const PAGE: &str = include_str!("../../../../docs/server-http.md");

#[test]
fn commands_run_as_pasted() {
    let served = Served::start(uids(70).with_segments(segments()));
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = 0;
    for block in PAGE.split("```sh\n").skip(1) {
        let (script, _) = block.split_once("```").expect("it ends");
        for line in script.lines() {
            let line = line.replace("127.0.0.1:8080", &served.address.to_string());
            let line = line.replace("curl ", "curl -q --noproxy '*' --fail-with-body -s -S ");
            let output = Command::new("sh").args(["-euc", &line]).current_dir(&folder).output();
            let output = output.expect("a shell");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {error}");
            run += 1;
        }
    }
    let ids = std::fs::read(folder.path().join("ids.bin")).expect("the file");
    assert_eq!((ids.len(), run), (8_000, 8));
}

#[test]
fn the_page_has_all_metrics() {
    let served = Served::start(uids(71));
    let metrics = served.curl("/metrics");
    let own: Vec<_> = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP uidring_server_")?.split_once(' '))
        .collect();
    assert_eq!(own.len(), 10);
    for (name, text) in own {
        let line =
            PAGE.lines().find(|line| line.starts_with(&format!("| `uidring_server_{name}`")));
        let text = text.split(',').next().unwrap_or_default();
        assert!(line.is_some_and(|line| line.contains(text) || name == "ready"), "{name}: {text}");
    }
}
