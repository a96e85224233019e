//! Clients of other projects. `scripts/clients` installs them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uidring_server::Server;
use uidring_testkit::certificates::Authority;

use crate::support::{names, run, start};

/// Returns where `scripts/clients` puts packages of Python and Node.
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
    // A client without TLS gets no answer, and does no harm.
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
    // Clients pipeline, so there may be more than requested.
    let (ids, rest) = ids.split_once(',').expect("a number");
    assert!(
        ids.parse::<u64>().expect("a number") >= 60_000 && rest.starts_with("errors=0"),
        "{info}"
    );
}

/// With defaults, as a newcomer writes it.
const PYTHON: &str = r#"
import asyncio, redis, redis.asyncio, sys, threading
port = int(sys.argv[1])
for options in ({}, {'protocol': 2}, {'protocol': 3}):
    client = redis.Redis(port=port, client_name='test', decode_responses=True, **options)
    assert client.ping()
    first = client.incr('uid')
    assert int(client.get('uid')) == first + 1
    pipeline = client.pipeline()
    for _ in range(1000):
        pipeline.incr('uid')
    ids = pipeline.execute()
    assert ids == sorted(set(ids)) and ids[0] > first and len(ids) == 1000, ids[:3]
    pipeline = client.pipeline(transaction=False)
    plain = pipeline.incr('uid').get('uid').execute()
    assert int(plain[1]) > plain[0] > ids[-1]
    def both(pipeline):
        pipeline.multi()
        pipeline.incr('uid').incr('orders')
    assert len(client.transaction(both, 'uid', 'orders')) == 2
    assert client.incrby('orders', 10) > 10
    many = client.execute_command('UID.NEXT', 'uid', 'COUNT', 500)
    assert len(set(many)) == 500 and many[0] > plain[0]
    pair = client.mget('uid', 'nothing')
    assert int(pair[0]) > many[-1] and pair[1] is None, pair
    assert client.exists('uid', 'orders', 'nothing') == 2
    assert client.type('uid') == 'string' and client.type('nothing') == 'none'
    assert client.ttl('uid') == -1 and client.ttl('nothing') == -2
    assert sorted(client.keys('*')) == ['orders', 'uid'] and client.keys('u?[a-d]') == ['uid']
    assert sorted(client.scan_iter(count=1)) == ['orders', 'uid']
    assert list(client.scan_iter(match='o*')) == ['orders'] and client.dbsize() == 2
    commands = client.command()
    assert commands['incr']['first_key_pos'] == 1 and commands['exists']['last_key_pos'] == -1
    assert 'clients' not in client.info('names') and 'uid' in client.info('names')
    assert client.client_info()['laddr'] == f'127.0.0.1:{port}'
    assert client.time()[0] > 1_700_000_000
    assert client.client_info()['name'] == 'test' and client.client_list()[0]['name'] == 'test'
    try:
        client.incr('nothing')
        raise SystemExit('no error')
    except redis.ResponseError as error:
        assert "no name 'nothing'" in str(error), error
    try:
        client.pipeline().incr('uid').set('uid', 1).incr('uid').execute()
        raise SystemExit('no error')
    except redis.ResponseError as error:
        assert "unknown command 'SET'" in str(error), error
    answers = client.pipeline().incr('uid').incr('nothing').execute(raise_on_error=False)
    assert answers[0] > many[-1] and 'no name' in str(answers[1]), answers
    client.reset()
    async def later():
        async with redis.asyncio.Redis(port=port, **options) as client:
            await client.incr('uid')
            async with client.pipeline() as pipeline:
                ids = await pipeline.incr('uid').incr('uid').execute()
            assert ids[1] > ids[0]
            assert sorted([name async for name in client.scan_iter()]) == [b'orders', b'uid']
    asyncio.run(later())
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
    for version in ["8.1.0", "5.2.1"] {
        let server = start(names());
        let mut python = Command::new("python3");
        let package = packages().join(format!("redis-py-{version}"));
        python.env("PYTHONPATH", package).args(["-c", PYTHON]);
        assert_eq!(output(python.arg(server.port().to_string())), "done\n", "{version}");
        assert_eq!(server.running().connections(), 0);
    }
}

/// JavaScript rounds numbers above 2^53. `GET` answers texts.
const NODE: &str = r#"
const { createClient } = require('redis');
const Redis = require('ioredis');
const port = Number(process.argv[1]);
const check = (is, what) => { if (!is) { console.error(what); process.exit(1); } };
const increasing = ids => ids.every((id, i) => i === 0 || BigInt(id) > BigInt(ids[i - 1]));
const same = (a, b) => check(JSON.stringify(a) === JSON.stringify(b), a);
(async () => {
  for (const options of [{}, { RESP: 3 }]) {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, ...options });
    client.on('error', error => check(false, error));
    await client.connect();
    const ids = await Promise.all(Array.from({ length: 1000 }, () => client.get('uid')));
    check(ids.every(id => typeof id === 'string' && id.length === 18) && increasing(ids), ids);
    const small = await client.incr('orders');
    check(small >= 1 && small < 100, small);
    const error = await client.get('nothing').catch(error => error);
    check(String(error).includes("no name 'nothing'"), error);
    const both = await client.multi().get('uid').get('uid').incr('orders').exec();
    check(increasing([ids[999], both[0], both[1]]) && both[2] === small + 1, both);
    const aborted = await client.multi().get('uid').set('uid', '1').exec().catch(error => error);
    check(aborted instanceof Error, aborted);
    const [one, none] = await client.mGet(['uid', 'nothing']);
    check(increasing([both[1], one]) && none === null, one);
    same([await client.exists('uid'), await client.type('uid'), await client.ttl('uid')], [1, 'string', -1]);
    const found = [];
    for await (const names of client.scanIterator({ COUNT: 1 })) found.push(...names);
    same(found.sort(), ['orders', 'uid']);
    check((await client.clientInfo()).id > 0, 'this client');
    await client.close();
  }
  const other = new Redis(port, '127.0.0.1');
  const more = await Promise.all(Array.from({ length: 1000 }, () => other.get('uid')));
  check(increasing(more), more);
  check(await other.call('UID.NEXT', 'orders') === 5, 'the next one');
  const answers = await other.multi().get('uid').get('nothing').exec();
  check(increasing([more[999], answers[0][1]]) && String(answers[1][0]).includes('no name'), answers);
  same((await other.keys('*')).sort(), ['orders', 'uid']);
  const found = [];
  for await (const names of other.scanStream()) found.push(...names);
  same(found.sort(), ['orders', 'uid']);
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

const PHP: &str = r#"
assert_options(ASSERT_BAIL, 1);
function check($is, $what) { if (!$is) { var_dump($what); exit(1); } }
$client = new Redis();
$client->connect('127.0.0.1', (int) $argv[1]);
$ids = $client->multi()->incr('uid')->get('uid')->incrBy('uid', 10)->exec();
check($ids[0] < (int) $ids[1] && (int) $ids[1] < $ids[2], $ids);
$more = $client->pipeline()->incr('uid')->incr('uid')->exec();
check($more[1] > $more[0] && $more[0] > $ids[2], $more);
check($client->multi()->incr('uid')->discard(), 'discarded');
$pair = $client->mget(['uid', 'nothing']);
check((int) $pair[0] > $more[1] && $pair[1] === false, $pair);
check($client->exists('uid', 'nothing') === 1, 'exists');
check($client->type('uid') === Redis::REDIS_STRING, 'type');
check($client->ttl('uid') === -1 && $client->dbSize() === 2, 'ttl');
$names = $client->keys('*');
sort($names);
check($names === ['orders', 'uid'], $names);
[$cursor, $found] = [null, []];
while (($part = $client->scan($cursor, '*', 1)) !== false) { $found = array_merge($found, $part); }
sort($found);
check($found === $names, $found);
check((int) $client->time()[0] > 1700000000, $client->time());
check($client->client('list')[0]['id'] > 0, $client->client('list'));
check($client->watch('uid') && $client->unwatch(), 'watch');
check($client->incr('nothing') === false && str_contains($client->getLastError(), 'no name'), 'error');
echo "done\n";
"#;

#[test]
fn phpredis() {
    let server = start(names());
    let mut php = Command::new("php");
    assert_eq!(output(php.args(["-r", PHP, "--", &server.port().to_string()])), "done\n");
}

const RUBY: &str = r#"
require 'redis'
client = Redis.new(port: ARGV[0].to_i)
check = ->(is, what) { is or abort(what.inspect) }
ids = client.multi { |transaction| 2.times { transaction.incr('uid') } }
check.(ids[1] > ids[0], ids)
more = client.pipelined { |pipeline| 2.times { pipeline.incr('uid') } }
check.(more[1] > more[0] && more[0] > ids[1], more)
watched = client.watch('uid') { client.multi { |transaction| transaction.get('uid') } }
check.(watched[0].to_i > more[1], watched)
pair = client.mget('uid', 'nothing')
check.(pair[0].to_i > watched[0].to_i && pair[1].nil?, pair)
check.(client.exists('uid', 'nothing') == 1 && client.type('uid') == 'string', 'exists')
check.(client.ttl('uid') == -1 && client.dbsize == 2, 'ttl')
check.(client.keys.sort == %w[orders uid] && client.scan_each(count: 1).sort == %w[orders uid], 'keys')
check.(client.time[0] > 1_700_000_000, client.time)
begin
  client.multi { |transaction| transaction.incr('uid'); transaction.set('uid', 1) }
  abort('no error')
rescue Redis::CommandError => error
  check.(error.message.match?(/unknown command|EXECABORT/), error)
end
puts 'done'
"#;

#[test]
fn redis_of_ruby() {
    let server = start(names());
    let mut ruby = Command::new("ruby");
    assert_eq!(output(ruby.args(["-e", RUBY, &server.port().to_string()])), "done\n");
}
