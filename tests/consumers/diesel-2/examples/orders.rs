//! Orders with uids as keys. The process has one generator, with a worker id from a SQLite file. A query by time needs
//! no column for it.
//!
//! `cargo run --example orders -- /tmp/workers.db`

use std::env;
use std::error::Error;
use std::time::{Duration, SystemTime};

use diesel::prelude::*;
use uidring::{CachedUidGenerator, Timestamp, Uid};
use uidring_sqlite::SqliteStore;

diesel::table! {
    orders (id) {
        id -> BigInt,
        replaces -> Nullable<BigInt>,
        item -> Text,
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = orders)]
struct Order {
    id: Uid,
    replaces: Option<Uid>,
    item: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("which file for worker ids?")?;
    let workers = SqliteStore::new(file).create(true).worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers).build()?;
    let mut connection = SqliteConnection::establish(":memory:")?;
    diesel::sql_query(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, replaces BIGINT, item TEXT NOT NULL)",
    )
    .execute(&mut connection)?;

    let mut last = None;
    for item in ["tea", "coffee"] {
        let order = Order { id: generator.next_uid()?, replaces: last, item: item.into() };
        diesel::insert_into(orders::table).values(&order).execute(&mut connection)?;
        last = Some(order.id);
    }

    let minute_ago = SystemTime::now() - Duration::from_secs(60);
    let last_minute = minute_ago.into()..=Timestamp::from(SystemTime::now());
    let range = generator.layout().uid_range(last_minute).ok_or("no such uids")?;
    let orders = orders::table
        .filter(orders::id.ge(*range.start()))
        .order(orders::id)
        .select(Order::as_select())
        .load(&mut connection)?;
    for Order { id, replaces, item } in &orders {
        println!("{id} {item} {} {replaces:?}", generator.decode(*id)?.timestamp);
    }
    assert_eq!(orders.last().map(|order| order.id), last);
    Ok(())
}
