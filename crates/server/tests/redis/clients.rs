//! Clients that nobody here wrote. `scripts/clients` installs them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uidring_server::Server;
use uidring_testkit::certificates::Authority;

use crate::support::{names, run, start};

/// Where `scripts/clients` puts packages of Python and Node.
fn packages() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join(target.unwrap_or("target".into())).join("clients");
    assert!(folder.is_dir(), "there is no {}: run scripts/clients", folder.display());
    folder
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/clients"));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

#[test]
fn redis_cli() {
    let server = start(names());
    let cli = |words: &[&str]| {
        output(Command::new("redis-cli").args(["-p", &server.port().to_string()]).args(words))
    };
    let first: u64 = cli(&["incr", "uid"]).trim().parse().expect("an id");
    assert_eq!(cli(&["get", "uid"]).trim(), (first + 1).to_string());
    assert_eq!(cli(&["uid.next", "count", "3"]).lines().count(), 3);
    assert_eq!(cli(&["-3", "incr", "orders"]).trim(), "1");
    assert!(cli(&["-3", "uid.parse", &first.to_string()]).contains("worker_id 7"));
    assert!(cli(&["info"]).contains("server:uidring"));
}

#[test]
fn redis_cli_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let certificate = authority.server();
    let [shown, key] =
        [&certificate.certificate, &certificate.key].map(|path| fs::read(path).expect("there"));
    let server = Server::new().password("secret").tls(&shown, &key).expect("they fit");
    let server = run(server, names());
    let port = server.port().to_string();
    let cli = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.env("REDISCLI_AUTH", "secret").args([
            "-h",
            "localhost",
            "-p",
            &port,
            "--tls",
            "--cacert",
        ]);
        output(command.arg(authority.certificate()).args(words))
    };
    assert_eq!(cli(&["incr", "orders"]).trim(), "1");
    assert_eq!(cli(&["uid.next", "count", "5000"]).lines().count(), 5_000);
    // Whoever speaks no TLS gets no answer, and harms nobody.
    let mut client = server.client();
    client.send(b"PING\r\n");
    assert!(!client.rest_of_bytes().starts_with(b"+"));
    assert_eq!(cli(&["incr", "orders"]).trim(), "2");
}

#[test]
fn redis_benchmark() {
    let server = start(names());
    for pipeline in ["1", "16", "128"] {
        let report = output(
            Command::new("redis-benchmark")
                .args(["-p", &server.port().to_string(), "-n", "20000", "-c", "20", "-P", pipeline])
                .args(["--csv", "INCR", "uid"]),
        );
        assert!(report.contains("\"INCR uid\","), "{report}");
    }
    let info = server.client().say(&["INFO"]);
    let (_, ids) = info.split_once("\r\nuid:ids=").expect("the name");
    // Whole pipelines of all connections may be more than was asked for.
    let (ids, rest) = ids.split_once(',').expect("a number");
    assert!(
        ids.parse::<u64>().expect("a number") >= 60_000 && rest.starts_with("errors=0"),
        "{info}"
    );
}

const PYTHON: &str = r#"
import redis, sys, threading
port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name='test')
    assert client.ping()
    first = client.incr('uid')
    assert int(client.get('uid')) == first + 1
    pipeline = client.pipeline(transaction=False)
    for _ in range(1000):
        pipeline.incr('uid')
    ids = pipeline.execute()
    assert ids == sorted(set(ids)) and ids[0] > first, ids[:3]
    assert client.incrby('orders', 10) % 10 == 0
    many = client.execute_command('UID.NEXT', 'uid', 'COUNT', 500)
    assert len(set(many)) == 500 and many[0] > ids[-1]
    try:
        client.incr('nothing')
        raise SystemExit('no error')
    except redis.ResponseError as error:
        assert "no name 'nothing'" in str(error), error
pool = redis.ConnectionPool(port=port)
taken, lock = [], threading.Lock()
def take():
    client = redis.Redis(connection_pool=pool)
    ids = [client.incr('uid') for _ in range(200)]
    assert ids == sorted(ids)
    with lock:
        taken.extend(ids)
threads = [threading.Thread(target=take) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(set(taken)) == 1600
print('done')
"#;

#[test]
fn redis_py() {
    let server = start(names());
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages().join("python")).args(["-c", PYTHON]);
    assert_eq!(output(python.arg(server.port().to_string())), "done\n");
}

/// Numbers above 2^53 are rounded there: `GET` answers texts.
const NODE: &str = r#"
const { createClient } = require('redis');
const Redis = require('ioredis');
const port = Number(process.argv[1]);
const check = (is, what) => { if (!is) { console.error(what); process.exit(1); } };
const increasing = ids => ids.every((id, i) => i === 0 || BigInt(id) > BigInt(ids[i - 1]));
(async () => {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on('error', error => check(false, error));
  await client.connect();
  const ids = await Promise.all(Array.from({ length: 1000 }, () => client.get('uid')));
  check(ids.every(id => typeof id === 'string' && id.length === 18) && increasing(ids), ids);
  check(await client.incr('orders') === 1, 'a small number is exact');
  const error = await client.get('nothing').catch(error => error);
  check(String(error).includes("no name 'nothing'"), error);
  await client.close();
  const other = new Redis(port, '127.0.0.1');
  const more = await Promise.all(Array.from({ length: 1000 }, () => other.get('uid')));
  check(increasing(ids.concat(more)), more);
  check(await other.call('UID.NEXT', 'orders') === 2, 'the next one');
  other.disconnect();
  console.log('done');
})();
"#;

#[test]
fn clients_of_node() {
    let server = start(names());
    let mut node = Command::new("node");
    node.current_dir(packages().join("node")).args(["-e", NODE, &server.port().to_string()]);
    assert_eq!(output(&mut node), "done\n");
}
