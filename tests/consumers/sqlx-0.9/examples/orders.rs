//! Orders with uids as keys. The process has one generator, with a worker id from a SQLite file. A query by time needs
//! no column for it.
//!
//! `cargo run --example orders -- /tmp/workers.db`

use std::env;
use std::error::Error;
use std::time::{Duration, SystemTime};

use sqlx::SqlitePool;
use uidring::{CachedUidGenerator, Timestamp, Uid};
use uidring_sqlite::SqliteStore;

#[derive(sqlx::FromRow)]
struct Order {
    id: Uid,
    replaces: Option<Uid>,
    item: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("which file for worker ids?")?;
    let workers = SqliteStore::new(file).create(true).worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers).build()?;
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    sqlx::query(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, replaces INTEGER, item TEXT NOT NULL)",
    )
    .execute(&pool)
    .await?;

    let mut last = None;
    for item in ["tea", "coffee"] {
        let order = Order { id: generator.next_uid()?, replaces: last, item: item.into() };
        sqlx::query("INSERT INTO orders (id, replaces, item) VALUES (?, ?, ?)")
            .bind(order.id)
            .bind(order.replaces)
            .bind(order.item)
            .execute(&pool)
            .await?;
        last = Some(order.id);
    }

    let minute_ago = SystemTime::now() - Duration::from_secs(60);
    let last_minute = minute_ago.into()..=Timestamp::from(SystemTime::now());
    let range = generator.layout().uid_range(last_minute).ok_or("no such uids")?;
    let orders: Vec<Order> = sqlx::query_as("SELECT * FROM orders WHERE id >= ? ORDER BY id")
        .bind(range.start())
        .fetch_all(&pool)
        .await?;
    for Order { id, replaces, item } in &orders {
        println!("{id} {item} {} {replaces:?}", generator.decode(*id)?.timestamp);
    }
    assert_eq!(orders.last().map(|order| order.id), last);
    Ok(())
}
