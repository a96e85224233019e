//! The password, certificate and key of `uidring serve`: who may read them, and changing them while it runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;

use uidring_testkit::certificates::{Authority, Certificate};

use crate::serve::Server;
use crate::support::Home;

const FLAGS: &str = "--password-file password --tls-cert cert.pem --tls-key key.pem";

fn write(home: &Home, name: &str, bytes: impl AsRef<[u8]>, mode: u32) {
    let path = home.folder.path().join(name);
    fs::write(&path, bytes).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
}

fn install(home: &Home, certificate: &Certificate) {
    let read = |path: &Path| fs::read(path).expect("there");
    write(home, "cert.pem", read(&certificate.certificate), 0o644);
    write(home, "key.pem", read(&certificate.key), 0o600);
}

fn authority(home: &Home, name: &str) -> Authority {
    let folder = home.folder.path().join(name);
    fs::create_dir(&folder).expect("made");
    Authority::new(&folder)
}

/// Returns the status of an answer; `None` without a connection.
fn status(server: &Server, authority: &Authority, password: &str) -> Option<u16> {
    let port = server.said.split_once("https://127.0.0.1:").expect("it says where").1;
    let port = port.split_once('/').expect("a port").0;
    let mut curl = Command::new("curl");
    curl.args([
        "-q",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--noproxy",
        "*",
        "--max-time",
        "60",
    ]);
    curl.arg("--cacert").arg(authority.certificate());
    curl.args(["-H", &format!("Authorization: Bearer {password}")]);
    let output = curl.arg(format!("https://localhost:{port}/v1/ids")).output();
    let output = output.expect("curl runs; `scripts/install curl curl` installs it");
    String::from_utf8_lossy(&output.stdout).parse().ok().filter(|status| *status != 0)
}

#[test]
fn a_hangup_has_them_read_again() {
    let home = Home::new();
    let [one, two] = ["one", "two"].map(|name| authority(&home, name));
    install(&home, &one.server());
    // Some editors write it so.
    write(&home, "password", "\u{feff}first\n", 0o600);
    let words = format!("serve --redis none --http 0 --thrift none --batch none {FLAGS}");
    let mut server = Server::start(&mut home.command(&words));
    assert_eq!(status(&server, &one, "first"), Some(200));
    assert_eq!(status(&server, &one, "second"), Some(401));
    assert_eq!(status(&server, &two, "first"), None);

    server.signal(1);
    let said = server.wait_for("certificate and key are as they were\n");
    assert!(said.contains("SIGHUP: the password is as it was\n"), "{said}");

    install(&home, &two.server());
    write(&home, "password", "second\n", 0o600);
    server.signal(1);
    let said = server.wait_for("SIGHUP: certificate and key are replaced");
    assert!(said.contains("SIGHUP: the password is replaced"), "{said}");
    assert!(!said.contains("second"), "{said}");
    assert_eq!(status(&server, &two, "second"), Some(200));
    assert_eq!(status(&server, &two, "first"), Some(401));
    assert_eq!(status(&server, &one, "second"), None);

    write(&home, "cert.pem", "no PEM", 0o644);
    write(&home, "password", "\n", 0o600);
    server.signal(1);
    let said = server.wait_for("certificate and key stay as they were\n");
    assert!(
        said.contains("warning: SIGHUP: the first line of password is empty; the password stays"),
        "{said}"
    );
    assert!(said.contains("there is no certificate"), "{said}");
    assert_eq!(status(&server, &two, "second"), Some(200));

    // An expired certificate does not replace a valid one.
    install(&home, &two.expired());
    server.signal(1);
    let said = server.wait_for("certificate and key stay as they were\n");
    assert!(said.contains("--tls-cert cert.pem has expired on 2020-02-01T00:00:00Z"), "{said}");
    assert_eq!(status(&server, &two, "second"), Some(200));

    install(&home, &one.server());
    write(&home, "key.pem", fs::read(two.server().key).expect("there"), 0o600);
    write(&home, "password", "third\n", 0o644);
    server.signal(1);
    let said = server.wait_for("certificate and key stay as they were\n");
    assert!(said.contains("others may read or change it (mode 644)"), "{said}");
    assert_eq!(status(&server, &two, "second"), Some(200));
    server.signal(15);
    assert_eq!(server.end().0, Some(0));
}

/// The pipe is read at the start, and has no writer later. A hangup does not wait for one, and SIGTERM ends the server.
#[test]
fn a_hangup_waits_for_no_pipe() {
    let home = Home::new();
    let pipe = home.folder.path().join("password");
    let status = Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status();
    assert!(status.expect("mkfifo runs").success());
    let writer = thread::spawn(move || fs::write(pipe, "first\n"));
    let words = "serve --redis none --http 0 --thrift none --batch none --password-file password";
    let mut server = Server::start(&mut home.command(words));
    writer.join().expect("no panic").expect("read");
    server.signal(1);
    let said = server.wait_for("the password stays as it was\n");
    assert!(said.contains("reading password: it is no regular file"), "{said}");
    server.signal(15);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn others_may_not_read_secrets() {
    let home = Home::new();
    install(&home, &authority(&home, "one").server());
    write(&home, "password", "first\n", 0o600);
    let check = || home.run(&format!("serve --check {FLAGS}"));
    assert_eq!(check().status, Some(0));
    for name in ["password", "key.pem"] {
        let path = home.folder.path().join(name);
        for mode in [0o644, 0o604, 0o620, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            let run = check();
            let text =
                format!("reading {name}: others may read or change it (mode {mode:o}): chmod 6");
            assert_eq!(run.status, Some(1), "{run:?}");
            assert!(run.stderr.contains(&text), "{}", run.stderr);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        // Only the superuser may give it away.
        if chown(&path, Some(65_534), None).is_ok() {
            let run = check();
            let text = format!("reading {name}: it belongs to another user (65534)");
            assert_eq!(run.status, Some(1), "{run:?}");
            assert!(run.stderr.contains(&text), "{}", run.stderr);
            chown(&path, Some(0), None).expect("ours again");
        }
    }
}

#[cfg(feature = "mysql")]
#[test]
fn a_url_with_a_password_that_everybody_may_read_is_a_warning() {
    let home = Home::new();
    let url = "mysql://ids:s3cret@db.example.com/ids?tls=verify";
    let listen = "redis = 0\nhttp = 'none'\nthrift = 'none'\nbatch = 'none'\n";
    let path = home.folder.path().join("url");
    for (name, text, words) in [
        ("url", url.to_owned(), "--redis 0 --http none --thrift none --batch none --url-file url"),
        ("serve.toml", format!("{listen}url = '{url}'\n"), "--config serve.toml"),
        (
            "by-file.toml",
            format!("{listen}url-file = '{}'\n", path.display()),
            "--config by-file.toml",
        ),
    ] {
        for mode in [0o644, 0o640, 0o600] {
            write(&home, name, &text, mode);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            let run = home.run(&format!("serve --check {words}"));
            assert_eq!(run.status, Some(0), "{run:?}");
            let is_warned = run
                .stderr
                .contains(" holds a password, and its mode lets every user read it: chmod o-r");
            assert_eq!(is_warned, mode == 0o644, "{name} {mode:o}: {}", run.stderr);
            assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
        }
    }
}

#[test]
fn a_key_of_no_use_is_explained() {
    let home = Home::new();
    install(&home, &authority(&home, "one").server());
    write(&home, "password", "first\n", 0o600);
    for path in [".", "/dev/null"] {
        let run = home.run(&format!("serve --check --tls-cert cert.pem --tls-key {path}"));
        assert!(run.stderr.contains("it is a folder or a device: name a file"), "{}", run.stderr);
    }
    for (words, text) in [
        ("genpkey -algorithm ED25519", "it is that of another certificate"),
        ("pkey -in key.pem -aes256 -passout pass:s3cret", "it is encrypted"),
        ("ec -in key.pem -aes256 -passout pass:s3cret", "it is encrypted"),
        ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024", "RSA with 2,048 bits or more"),
    ] {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).current_dir(home.folder.path());
        let output = command.output().expect("openssl runs");
        assert!(output.status.success(), "{words}: {output:?}");
        write(&home, "other.pem", &output.stdout, 0o600);
        let run = home.run("serve --check --tls-cert cert.pem --tls-key other.pem");
        assert_eq!(run.status, Some(1), "{words}: {run:?}");
        assert!(run.stderr.contains("other.pem: reading the private key: "), "{}", run.stderr);
        assert!(run.stderr.contains(text) && !run.stderr.contains("s3cret"), "{}", run.stderr);
    }
}

#[test]
fn a_certificate_that_clients_refuse_is_announced() {
    let home = Home::new();
    let one = authority(&home, "one");
    write(&home, "password", "first\n", 0o600);
    install(&home, &one.expired());
    let run = home.run(&format!("serve --check {FLAGS}"));
    assert_eq!(run.status, Some(0), "{run:?}");
    let text =
        "warning: --tls-cert cert.pem has expired on 2020-02-01T00:00:00Z, and clients refuse it";
    assert!(run.stderr.contains(text), "{}", run.stderr);
    install(&home, &one.ending());
    let run = home.run(&format!("serve --check {FLAGS}"));
    assert!(run.stderr.contains("--tls-cert cert.pem expires on 20"), "{}", run.stderr);
    install(&home, &one.early());
    let run = home.run(&format!("serve --check {FLAGS}"));
    let text = "warning: --tls-cert cert.pem is valid from 2200-01-01T00:00:00Z on, and until then";
    assert!(run.stderr.contains(text), "{}", run.stderr);
    install(&home, &one.server());
    let run = home.run(&format!("serve --check {FLAGS}"));
    assert_eq!((run.status, &*run.stderr), (Some(0), "the settings are right\n"));
}

/// A wrong path does not fill the memory.
#[test]
fn files_of_settings_are_small() {
    let home = Home::new();
    install(&home, &authority(&home, "one").server());
    for words in [
        "serve --check --config /dev/zero",
        "serve --check --password-file huge",
        "serve --check --tls-cert /dev/zero --tls-key key.pem",
        "serve --check --tls-cert cert.pem --tls-key huge",
        "serve --check --url-file /dev/zero",
        "serve --check --url-file huge",
    ] {
        let huge = fs::File::create(home.folder.path().join("huge")).expect("made");
        huge.set_len(1 << 40).expect("a hole");
        huge.set_permissions(fs::Permissions::from_mode(0o600)).expect("ours");
        let run = home.run(words);
        assert_eq!(run.status, Some(1), "{words}: {run:?}");
        assert!(run.stderr.contains("it has more than 1 MiB"), "{words}: {}", run.stderr);
    }
}
