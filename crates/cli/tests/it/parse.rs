//! `uidring parse` reads what `uidring generate` prints, and survives other input.

use std::fs::File;

use serde_json::Value;
use uidring::Uid;

use crate::support::{Home, Run};

#[test]
fn every_format_of_generate_is_read_back() {
    let home = Home::new();
    for generator in ["cached", "clock"] {
        for (format, length) in [("dec", None), ("hex", Some(18)), ("base62", Some(11))]
            .into_iter()
            .chain([("base32", Some(13))])
        {
            let words = format!("generate -n 50 --generator {generator} --format {format}");
            let texts = home.stdout(&words);
            assert!(texts.lines().all(|text| length.is_none_or(|n| text.len() == n)), "{texts}");
            let uids = parse(&home, &format!("--format {format}"), texts.as_bytes());
            let again: Vec<String> = uids
                .iter()
                .map(|fields| {
                    let uid: Uid = text(fields, "uid").parse().expect("decimal");
                    match format {
                        "hex" => uid.hex().to_string(),
                        "base62" => uid.base62().to_string(),
                        "base32" => uid.base32().to_string(),
                        _ => uid.to_string(),
                    }
                })
                .collect();
            assert_eq!(again, texts.lines().collect::<Vec<_>>());
            assert!(again.is_sorted_by(|a, b| a < b), "texts of one length sort like numbers");
        }
    }
}

#[test]
fn generate_prints_json_as_parse_does() {
    let home = Home::new();
    let layouts = ["", " --layout 31/10/12", " --layout 41/10/12/ms/2020-01-01T00:00:00.5Z"];
    for layout in layouts {
        let words =
            format!("generate -n 10000 --format json -u sqlite:{}.db?mode=rwc", layout.len());
        let printed = home.stdout(&(words + layout));
        let uids: String = printed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .map(|fields| format!("{}\n", text(&fields, "uid")))
            .collect();
        let run = Run::with_input(&mut home.command(&format!("parse{layout}")), uids.as_bytes());
        assert_eq!((run.status, &*run.stderr), (Some(0), ""));
        assert!(run.stdout == printed, "layout{layout}");
        assert_eq!(printed.lines().count(), 10_000);
    }
}

#[test]
fn known_uids() {
    let home = Home::new();
    // 7 s after the epoch, worker 3, sequence 2: 7 × 2^35 + 3 × 2^13 + 2.
    assert_eq!(
        home.stdout("parse 240518193154"),
        concat!(
            r#"{"uid":"240518193154","timestamp":"2026-01-01T00:00:07Z","#,
            r#""worker_id":3,"sequence":2}"#,
            "\n"
        )
    );
    // An hour after Twitter's epoch, worker 5, sequence 7: 3,600,000 × 2^22 + 5 × 2^12 + 7 = 15,099,494,400,000 +
    // 20,480 + 7.
    let twitter = "--layout 41/10/12/ms/2010-11-04T01:42:54.657Z";
    // The example of UidGenerator's documentation: its sample layout begins on 2016-09-20 in Beijing, and it says
    // 12:15:46 there, worker 4, sequence 9.
    let baidu = "--layout 29/21/13/s/2016-09-20T00:00:00+08:00";
    for (layout, uid, fields) in [
        (twitter, "15099494420487", ("2010-11-04T02:42:54.657Z", 5, 7)),
        (baidu, "180363646902239241", ("2017-01-19T04:15:46Z", 4, 9)),
    ] {
        let parsed = parse(&home, &format!("{layout} {uid}"), b"");
        let [found] = parsed.as_slice() else { panic!("one: {parsed:?}") };
        let (time, worker_id, sequence) = fields;
        assert_eq!((text(found, "uid"), text(found, "timestamp")), (uid, time));
        assert_eq!(
            (&found["worker_id"], &found["sequence"]),
            (&worker_id.into(), &sequence.into())
        );
    }
    // The first uid again. In base32, it is 7 × 32^7 + 24 × 32^2 + 2, where R is 24 and o is zero.
    for words in ["0x3800006002", "--format hex 3800006002", "--format base32 7oooor02"] {
        assert_eq!(uids(&parse(&home, words, b"")), ["240518193154"], "{words}");
    }
}

/// JavaScript holds whole numbers up to 2^53. Other readers of JSON round, too.
#[test]
fn json_holds_uids_as_strings_of_digits() {
    let home = Home::new();
    let parsed = parse(&home, "--quiet 5 9007199254740993 9223372036854775807", b"");
    assert_eq!(uids(&parsed), ["5", "9007199254740993", "9223372036854775807"]);
    assert!(parsed.iter().all(|fields| fields.get("uid_str").is_none()), "{parsed:?}");
    assert_eq!(parsed[2]["timestamp"], "2034-07-04T21:24:15Z");
}

#[test]
fn json_is_recognised_in_every_form_of_lines() {
    let home = Home::new();
    let long = format!(r#"{{"text":"{}","id":5}}"#, "x".repeat(3_000));
    let lines = [r#"{"uid":"5"}"#, r#" { "id_str": "5", "id": 5 }"#, r#""5""#, &*long, "5"];
    for format in ["dec", "hex", "base62", "base32", "json", "text"] {
        let words = format!("parse --format {format}");
        let run = Run::with_input(&mut home.command(&words), lines.join("\n").as_bytes());
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
        let found = run.stdout.lines().filter(|line| line.contains("2026-01-01T00:00:00Z"));
        assert_eq!(found.count(), lines.len(), "{words}: {}", run.stdout);
    }
    for twice in [r#"{"uid":5,"uid":6}"#, r#"{"id":"5","a":1,"\u0069d":"6"}"#] {
        let run = Run::of(home.command("parse").arg(twice));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""));
        assert!(run.stderr.contains("a field with the id comes twice"), "{}", run.stderr);
    }
    let run = Run::of(home.command("parse").arg(r#"{"uid":5,"uid_str":"6"}"#));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains(r#""uid" is 5, but "uid_str" is 6"#), "{}", run.stderr);
}

#[test]
fn what_cannot_be_read_names_the_formats_that_could() {
    let home = Home::new();
    for (words, hint) in [
        // One uid of 31 January 2026, in several forms.
        ("6Ztf1NX1o2", "; --format base62 could read it\n"),
        ("013c68000000e02a", "; --format hex could read it\n"),
        ("2F3800001R1A", "; --format base32 could read it\n"),
        ("--format json 089060441849913386", "; --format dec could read it\n"),
    ] {
        let run = home.run(&format!("parse {words}"));
        assert_eq!(run.status, Some(1), "{words}");
        assert!(run.stderr.ends_with(hint), "{words}: {}", run.stderr);
    }
    for words in ["-5", "*", "9223372036854775808", "garbage", "abc", "--format json 007"] {
        let run = home.run(&format!("parse {words}"));
        assert!(!run.stderr.contains("could read it"), "{words}: {}", run.stderr);
    }
}

/// Read in the default layout, a Snowflake id's time is some 14 months too late.
#[test]
fn an_implausible_time_names_the_layouts_that_would_explain_it() {
    let home = Home::new();
    let id = home.run("generate --generator snowflake -u worker:5").stdout;
    let id = id.trim_end();
    let run = home.run(&format!("parse {id} 5 {id}"));
    assert_eq!((run.status, run.stdout.lines().count()), (Some(0), 3), "{run:?}");
    let [first, count] = run.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{run:?}") };
    assert!(first.starts_with(&format!("argument 1: {id} is of 20")), "{first}");
    assert!(first.contains("by layout 28/22/13 in s since 2026-01-01T00:00:00Z, "), "{first}");
    assert!(first.contains(" ahead of the clock; --layout snowflake makes it 20"), "{first}");
    assert_eq!(count, "2 uids are as far ahead");

    let run = home.run("parse 9223372036854775807");
    assert!(run.stderr.contains("no layout with a name explains it"), "{run:?}");
    assert_eq!(home.run(&format!("parse --quiet {id}")).stderr, "");
    assert_eq!(home.run(&format!("parse --layout snowflake {id}")).stderr, "");
    let check = Run::with_input(&mut home.command("check --layout uid"), id.as_bytes());
    assert!(check.stderr.contains("--layout snowflake makes it 20"), "{check:?}");
}

#[test]
fn a_table_is_for_people() {
    let home = Home::new();
    let table = home.stdout("parse --format text 240518193154 0x5");
    assert_eq!(
        table,
        "                uid  timestamp                  worker  sequence\n\
         \x20      240518193154  2026-01-01T00:00:07Z            3         2\n\
         \x20                 5  2026-01-01T00:00:00Z            0         5\n"
    );
    let table = home.stdout("parse --format text --layout snowflake 15099494420487");
    assert_eq!(
        table,
        "                uid  timestamp                 datacenter   worker  sequence\n\
         \x20    15099494420487  2010-11-04T02:42:54.657Z           0        5         7\n"
    );
}

#[test]
fn what_is_no_uid_is_reported_and_the_rest_still_comes() {
    let home = Home::new();
    let lines = ["1", "x", "2", "", "3", "-4", "9223372036854775808", " 5", "+6", "0x", "7"];
    let run = Run::with_input(&mut home.command("parse"), lines.join("\n").as_bytes());
    assert_eq!(good(&run), ["1", "2", "3", "7"], "the last line needs no line feed");
    assert_eq!(reported(&run, "line"), [2, 6, 7, 8, 9, 10]);

    let run = home.run("parse 1 x 2 0x1g -5 9223372036854775808 3");
    assert_eq!(good(&run), ["1", "2", "3"]);
    assert_eq!(reported(&run, "argument"), [2, 4, 5, 6]);
}

#[test]
fn an_empty_or_negative_argument_is_no_uid() {
    let home = Home::new();
    let run = Run::of(home.command("parse 1").arg("").arg("2"));
    assert_eq!((good(&run), reported(&run, "argument")), (vec!["1".into(), "2".into()], vec![2]));
    let run = home.run("parse -5");
    assert_eq!((good(&run), reported(&run, "argument")), (vec![], vec![1]));
}

#[test]
fn uids_of_another_layout_are_reported() {
    let home = Home::new();
    let run = home.run("parse --layout 1/1/1 7 8 0");
    assert_eq!(good(&run), ["7", "0"]);
    assert_eq!(reported(&run, "argument"), [2]);
    assert!(run.stderr.contains("not of this layout"), "{}", run.stderr);
}

#[test]
fn line_ends_of_both_kinds_are_read() {
    let home = Home::new();
    assert_eq!(uids(&parse(&home, "", b"1\r\n2\n3\r\n")), ["1", "2", "3"]);
    assert_eq!(uids(&parse(&home, "-", b"1\n2")), ["1", "2"], "a dash is stdin");
    assert_eq!(uids(&parse(&home, "", b"")), [""; 0]);
    // Blank lines and a byte order mark are skipped. A carriage return within a line does not end it.
    let run = Run::with_input(&mut home.command("parse"), b"\xef\xbb\xbf4\r\n\n\r\n1\r2\n3\n\n");
    assert_eq!(good(&run), ["4", "3"]);
    assert_eq!(reported(&run, "line"), [4]);
}

#[test]
fn input_that_is_not_utf_8_is_reported() {
    let home = Home::new();
    let run = Run::with_input(&mut home.command("parse"), b"1\n\xff\xfe2\n\x00\n3\xc3\n4\n");
    assert_eq!(good(&run), ["1", "4"]);
    assert_eq!(reported(&run, "line"), [2, 3, 4]);
}

#[test]
fn an_over_long_line_is_reported_and_the_rest_still_comes() {
    let home = Home::new();
    let long = "7".repeat(1 << 20);
    let input = format!("1\n{long}\n2\n{long}\r\n\n{long}");
    let run = Run::with_input(&mut home.command("parse"), input.as_bytes());
    assert_eq!(good(&run), ["1", "2"]);
    assert_eq!(reported(&run, "line"), [2, 4, 6]);
    assert!(run.stderr.len() < 1_000, "the line itself is not repeated");

    // Leading zeros are allowed, up to the greatest length of a line.
    let zeros = |length: usize| format!("{:0>length$}\n", 5);
    let input = [zeros(256), zeros(257), zeros(256)].concat();
    let run = Run::with_input(&mut home.command("parse"), input.as_bytes());
    assert_eq!(good(&run), ["5", "5"]);
    assert_eq!(reported(&run, "line"), [2]);
}

#[test]
fn input_that_cannot_be_read_is_a_failure() {
    let home = Home::new();
    let folder = File::open(home.folder.path()).expect("opens");
    let output = home.command("parse").stdin(folder).output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("error: reading stdin: "), "{stderr}");
}

fn parse(home: &Home, words: &str, input: &[u8]) -> Vec<Value> {
    let run = Run::with_input(&mut home.command(&format!("parse {words}")), input);
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
    objects(&run)
}

fn objects(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

fn text<'a>(fields: &'a Value, key: &str) -> &'a str {
    fields[key].as_str().unwrap_or_else(|| panic!("{key} of {fields} is a text"))
}

fn uids(parsed: &[Value]) -> Vec<&str> {
    parsed.iter().map(|fields| text(fields, "uid")).collect()
}

/// Returns the uids read from partly wrong input.
fn good(run: &Run) -> Vec<String> {
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    uids(&objects(run)).into_iter().map(ToOwned::to_owned).collect()
}

/// Returns the numbers of the reported lines or arguments, each with a reason.
fn reported(run: &Run, what: &str) -> Vec<usize> {
    let number = |line: &str| {
        let rest = line.strip_prefix("error: ")?.strip_prefix(what)?.strip_prefix(' ')?;
        let (number, why) = rest.split_once(": ")?;
        number.parse().ok().filter(|_| !why.is_empty())
    };
    let lines = run.stderr.lines();
    lines.map(|line| number(line).unwrap_or_else(|| panic!("a report: {line}"))).collect()
}

#[test]
fn layouts_have_names_or_are_written_out() {
    let home = Home::new();
    let line = home.stdout("parse --layout 41/10/12/ms/2020-07-31T16:00:00Z 3125927076831231");
    let fields: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&fields["datacenter_id"], &fields["worker_id"]), (&Value::Null, &33.into()));
    assert_eq!((&fields["sequence"], &fields["uid"]), (&4_095.into(), &"3125927076831231".into()));
    assert_eq!(fields["timestamp"], "2020-08-09T07:01:19.092Z");
    for (layout, datacenter, worker) in [("snowflake", 1.into(), 1), ("leaf", Value::Null, 33)] {
        let line = home.stdout(&format!("parse --quiet --layout {layout} 3125927076831231"));
        let fields: Value = serde_json::from_str(&line).expect("JSON");
        let found = (&fields["datacenter_id"], &fields["worker_id"]);
        assert_eq!(found, (&datacenter, &worker.into()), "{layout}");
    }
    let by_name = home.stdout("parse --layout uid 240518193154");
    assert_eq!(by_name, home.stdout("parse --layout 28/22/13 240518193154"));
    assert_eq!(home.run("parse --layout nothing 1").status, Some(2));
}

#[test]
fn snowflakes_are_generated_with_their_two_fields() {
    let home = Home::new();
    let words = "generate --generator snowflake -u worker:31/30 -n 5000 --format json";
    let run = home.run(words);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let mut last = String::new();
    for line in run.stdout.lines() {
        let fields: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&fields["datacenter_id"], &fields["worker_id"]), (&31.into(), &30.into()));
        let uid = fields["uid"].as_str().expect("text").to_owned();
        assert!(last < uid, "{last} {uid}");
        last = uid;
    }
    let leaf = home.run("generate --generator leaf-snowflake -u worker:1023 --format json");
    let fields: Value = serde_json::from_str(&leaf.stdout).expect("JSON");
    assert_eq!(fields["worker_id"], 1_023);
    assert!(fields["sequence"].as_u64().is_some_and(|sequence| sequence < 100));
    for words in [
        "generate --generator snowflake -u worker:32/1",
        "generate --generator snowflake -u worker:1/32",
        "generate --generator snowflake -u worker:1/",
        "generate --generator leaf-snowflake -u worker:1024",
        "generate -u worker:1/1",
        "generate --generator snowflake -u worker:1 --max-borrow 1",
    ] {
        let run = home.run(words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}");
    }
}
