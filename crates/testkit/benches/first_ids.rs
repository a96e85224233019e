//! The first ids of many tags, for each engine with segments and private servers: with one transaction per tag, and
//! with all waiting tags loaded together.

use std::time::{Duration, Instant};

use uidring::segment::{Loaded, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator};
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;

/// A store that is asked for one tag at a time.
struct OneByOne<S>(S);

impl<S: SegmentStore> SegmentStore for OneByOne<S> {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        for (index, request) in wanted.iter().enumerate() {
            self.0.load(std::slice::from_ref(request), &mut |_, done| loaded(index, done));
        }
    }
}

fn main() {
    // Ignore what `cargo bench` adds.
    let quick = std::env::args().any(|word| word == "--quick");
    let (rounds, tags) = if quick { (1, 500) } else { (3, 2_000) };
    println!("| first ids of {tags} tags | one by one (s) | together (s) |");
    println!("|---|---:|---:|");
    let names: Vec<String> = (0..tags).map(|number| format!("tag-{number}")).collect();
    let rows =
        names.iter().map(|name| format!("('{name}', 1, 1000)")).collect::<Vec<_>>().join(", ");
    let insert = format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES {rows}");
    let compare = |engine, results: [Duration; 2]| {
        let [apart, together] = results.map(|time| time.as_secs_f64());
        println!("| {engine} | {apart:.2} | {together:.2} |");
    };

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let table = || SqliteStore::new(&path).create(true).segments();
    create_table(&table());
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute_batch(&insert).expect("filled");
    compare("SQLite", medians(rounds, &names, table));

    let server = MariaDb::start_with(&["--innodb-flush-method=fsync"]);
    let database = server.database();
    let store = MySqlStore::from_url(&database.url()).expect("a URL");
    create_table(&store.segments().create_table_if_missing(true));
    database.execute(&insert);
    compare("MariaDB", medians(rounds, &names, || store.segments()));

    let server = Postgres::start_with(&["fsync=on"]);
    let database = server.database();
    let store = PostgresStore::from_url(&database.url()).expect("a URL");
    create_table(&store.segments().create_table_if_missing(true));
    database.execute(&insert);
    compare("PostgreSQL", medians(rounds, &names, || store.segments()));
}

fn create_table(table: &impl SegmentTable) {
    table.create_tag(&NewSegmentTag::new("first", 1).expect("allowed")).expect("created");
}

/// Returns the medians of interleaved rounds, one by one and together.
fn medians<S: SegmentStore>(
    rounds: usize,
    names: &[String],
    table: impl Fn() -> S,
) -> [Duration; 2] {
    let mut times = [(); 2].map(|()| Vec::new());
    for _ in 0..rounds {
        times[0].push(first_ids(OneByOne(table()), names));
        times[1].push(first_ids(table(), names));
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// Requests all tags, then waits for each.
fn first_ids(store: impl SegmentStore, names: &[String]) -> Duration {
    let generator = SegmentGenerator::builder(store).build().expect("built");
    let start = Instant::now();
    let early = names.iter().filter(|name| generator.try_next_id(name).is_ok()).count();
    for name in names {
        generator.next_id(name).expect("taken");
    }
    assert!(early < names.len(), "nothing was waited for");
    start.elapsed()
}
