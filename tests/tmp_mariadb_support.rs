//! temporary
#![cfg(all(feature = "mysql", unix))]

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/mariadb.rs"]
mod mariadb;
#[path = "support/proxy.rs"]
mod proxy;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use certificates::Authority;
use mariadb::MariaDb;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use proxy::{Proxy, Verdict};

fn run(url: &str, ca: Option<&Path>, sql: &str, prepared: bool) -> Result<Vec<String>, String> {
    let mut opts = OptsBuilder::from_opts(Opts::from_url(url).unwrap()).prefer_socket(false);
    if let Some(ca) = ca {
        opts = opts.ssl_opts(
            SslOpts::default()
                .with_root_certs(vec![ca.to_owned().into()])
                .with_disable_built_in_roots(true),
        );
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        tokio::time::timeout(Duration::from_secs(2), async {
            let mut c = Conn::new(opts).await.map_err(|e| format!("{e:?}"))?;
            if prepared {
                c.exec(sql, ()).await.map_err(|e| format!("{e:?}"))
            } else {
                c.query(sql).await.map_err(|e| format!("{e:?}"))
            }
        })
        .await
        .map_err(|_| "timeout".to_owned())?
    })
}

#[test]
fn two_servers() {
    let t = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let server = MariaDb::start();
                let a = server.database();
                let b = server.database();
                a.execute("CREATE TABLE t (x BIGINT UNSIGNED)");
                a.execute("INSERT INTO t VALUES (5), (18446744073709551615)");
                assert_eq!(a.query::<u64>("SELECT x FROM t"), [5, u64::MAX]);
                assert_eq!(b.query::<String>("SHOW TABLES"), Vec::<String>::new());
                assert_eq!(a.query::<(u64, String)>("SELECT 1, user()"), [(1, format!("{}@127.0.0.1", a.user()))]);
                let theirs = format!("SELECT * FROM {}.t", a.name());
                assert!(run(&b.url(), None, &theirs, false).unwrap_err().contains("1142"));
            });
        }
    });
    eprintln!("two servers: {:?}", t.elapsed());
}

#[test]
fn life() {
    let t = Instant::now();
    let server = MariaDb::start_with(&["--autocommit=0", "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES"]);
    eprintln!("start {:?}", t.elapsed());
    let db = server.database();
    db.execute("CREATE TABLE t (x INT)");
    db.execute("INSERT INTO t VALUES (1)");
    let t = Instant::now();
    server.kill();
    eprintln!("kill {:?}", t.elapsed());
    assert!(run(&db.url(), None, "SELECT 1", false).unwrap_err().contains("Connection refused"));
    let t = Instant::now();
    server.start_again();
    eprintln!("start again after kill {:?}", t.elapsed());
    assert_eq!(db.query::<u64>("SELECT x FROM t"), [1]);
    let t = Instant::now();
    server.stop();
    eprintln!("stop {:?}", t.elapsed());
    let t = Instant::now();
    server.start_again();
    eprintln!("start again after stop {:?}", t.elapsed());
    assert_eq!(db.query::<u64>("SELECT x FROM t"), [1]);
    server.log_statements();
    db.execute("INSERT INTO t VALUES (77)");
    assert!(server.statements().contains("INSERT INTO t VALUES (77)"), "{}", server.statements());
    eprintln!("{}", server.statements());
    server.freeze();
    assert_eq!(run(&db.url(), None, "SELECT 1", false).unwrap_err(), "timeout");
    server.thaw();
    assert_eq!(run(&db.url(), None, "SELECT 1", false).unwrap(), ["1"]);
    server.freeze();
    let folder = server.folder().to_owned();
    let t = Instant::now();
    drop(db);
    drop(server);
    eprintln!("drop frozen {:?}", t.elapsed());
    assert!(!folder.exists());
}

#[test]
#[should_panic(expected = "unknown variable 'nonsense=1'")]
fn nonsense() {
    let t = Instant::now();
    let _t = scopeguard(t);
    MariaDb::start_with(&["--nonsense=1"]);
}
struct G(Instant);
fn scopeguard(t: Instant) -> G { G(t) }
impl Drop for G { fn drop(&mut self) { eprintln!("nonsense {:?}", self.0.elapsed()); } }

#[test]
fn tls() {
    let folder = tempfile::tempdir().unwrap();
    let t = Instant::now();
    let ca = Authority::new(folder.path());
    let certs = [ca.server(), ca.expired(), ca.stranger()];
    eprintln!("certificates {:?}", t.elapsed());
    let other = tempfile::tempdir().unwrap();
    let other = (Authority::new(other.path()), other);
    for (i, cert) in certs.iter().enumerate() {
        let arguments = ca.arguments(cert);
        let server = MariaDb::start_with(&arguments.each_ref().map(|a| &**a));
        let db = server.database();
        for url in [db.url(), db.url_at(&format!("localhost:{}", server.port()))] {
            let result = run(&url, Some(&ca.certificate()), "SHOW STATUS LIKE 'Ssl_cipher'", false);
            eprintln!("{i} {result:?}");
            assert_eq!(result.is_ok(), i == 0);
            assert!(run(&url, Some(&other.0.certificate()), "DO 1", false).unwrap_err().contains("UnknownIssuer"));
            assert!(run(&url, None, "DO 1", false).is_ok());
        }
    }
    // no TLS on the server
    let db = MariaDb::shared().database();
    eprintln!("{:?}", run(&db.url(), Some(&ca.certificate()), "DO 1", false));
}

#[test]
fn proxies() {
    let db = MariaDb::shared().database();
    let port = db.server().port();
    let at = |p: &Proxy| db.url_at(&format!("127.0.0.1:{}", p.port()));
    db.execute("CREATE TABLE WORKER_NODE (id INT)");
    let plain = Proxy::to(port);
    assert_eq!(run(&at(&plain), None, "SELECT 1", true).unwrap(), ["1"]);
    for prepared in [false, true] {
        db.execute("DELETE FROM WORKER_NODE");
        let insert = "INSERT INTO WORKER_NODE VALUES (1)";
        let count = || db.query::<u64>("SELECT COUNT(*) FROM WORKER_NODE")[0];
        let seen = Arc::new(AtomicU32::new(9));
        let p = Proxy::before(port, "INSERT INTO WORKER_NODE", {
            let (seen, db_count) = (seen.clone(), db.url());
            move || seen.store(run(&db_count, None, "SELECT COUNT(*) FROM WORKER_NODE", false).unwrap()[0].parse().unwrap(), Ordering::SeqCst)
        });
        run(&at(&p), None, insert, prepared).unwrap();
        assert_eq!((seen.load(Ordering::SeqCst), count()), (0, 1));
        run(&at(&p), None, insert, prepared).unwrap();
        assert_eq!(count(), 2);
        drop(p);
        let p = Proxy::after(port, "INSERT INTO WORKER_NODE", || Verdict::Cut);
        eprintln!("cut: {:?}", run(&at(&p), None, insert, prepared).unwrap_err());
        assert_eq!(count(), 3);
        run(&at(&p), None, insert, prepared).unwrap();
        assert_eq!(count(), 4);
    }
    let p = Proxy::with(port, |c| if c.answers() { Verdict::Hold(Duration::from_millis(200)) } else { Verdict::Forward });
    let t = Instant::now();
    run(&at(&p), None, "DO 1", false).unwrap();
    eprintln!("held {:?}", t.elapsed());
    assert!(t.elapsed() >= Duration::from_millis(600));
    drop(p);
    let p = Proxy::with(port, |_| Verdict::Swallow);
    assert_eq!(run(&at(&p), None, "DO 1", false).unwrap_err(), "timeout");
    drop(p);
    let p = Proxy::with(port, |_| Verdict::Hold(Duration::from_secs(1000)));
    assert_eq!(run(&at(&p), None, "DO 1", false).unwrap_err(), "timeout");
    let t = Instant::now();
    drop(p);
    assert!(t.elapsed() < Duration::from_secs(1));
    let p = Proxy::to(1);
    eprintln!("nobody: {:?}", run(&at(&p), None, "DO 1", false).unwrap_err());
    for _ in 0..3000 { std::net::TcpStream::connect(("127.0.0.1", plain.port())).unwrap(); }
    std::thread::sleep(Duration::from_millis(300));
    eprintln!("fds {}", std::fs::read_dir("/proc/self/fd").unwrap().count());
    plain.cut();
    std::thread::sleep(Duration::from_millis(300));
    eprintln!("fds {}", std::fs::read_dir("/proc/self/fd").unwrap().count());
}

#[test]
fn killing_from_a_proxy() {
    for after in [false, true] {
        let server = MariaDb::start();
        let db = server.database();
        db.execute("CREATE TABLE WORKER_NODE (id INT)");
        let p = if after {
            let server = server.clone();
            Proxy::after(server.clone().port(), "INSERT INTO WORKER_NODE", move || { server.kill(); Verdict::Cut })
        } else {
            let server = server.clone();
            Proxy::before(server.clone().port(), "INSERT INTO WORKER_NODE", move || server.kill())
        };
        let e = run(&db.url_at(&format!("127.0.0.1:{}", p.port())), None, "INSERT INTO WORKER_NODE VALUES (1)", true);
        eprintln!("{e:?}");
        e.unwrap_err();
        server.start_again();
        assert_eq!(db.query::<u64>("SELECT COUNT(*) FROM WORKER_NODE"), [u64::from(after)]);
    }
}

#[test]
#[should_panic(expected = "a thread of the proxy panicked")]
fn hook_panics() {
    let db = MariaDb::shared().database();
    let p = Proxy::with(db.server().port(), |_| panic!("the hook"));
    run(&db.url_at(&format!("127.0.0.1:{}", p.port())), None, "DO 1", true).unwrap_err();
}

#[test]
#[ignore]
fn hang() {
    let server = MariaDb::start();
    let shared = MariaDb::shared();
    if std::env::var("FREEZE").is_ok() { server.freeze(); }
    println!("READY {} {}", server.folder().display(), shared.folder().display());
    std::thread::sleep(Duration::from_secs(1000));
}
