//! Uids as sqlx columns on three databases; scripts/consumers starts two of them.

use std::env;
use std::error::Error;

use sqlx::{Connection, MySqlConnection, PgConnection, SqliteConnection};
use uidring::Uid;

/// Includes the smallest, one that JavaScript rounds, and the greatest.
const NUMBERS: [u64; 4] = [0, 62, (1 << 53) + 1, i64::MAX as u64];

fn address(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: scripts/consumers does"))
}

macro_rules! uids_go_in_and_out {
    ($test:ident, $connection:ty, $address:expr, $insert:literal, $find:literal) => {
        #[tokio::test]
        async fn $test() -> Result<(), Box<dyn Error>> {
            let mut connection = <$connection>::connect(&$address).await?;
            let create = "CREATE TEMPORARY TABLE orders (id BIGINT PRIMARY KEY, parent BIGINT)";
            sqlx::query(create).execute(&mut connection).await?;
            let mut parent = None;
            for number in NUMBERS {
                let uid = Uid::new(number).ok_or("not a uid")?;
                let insert = sqlx::query($insert).bind(uid).bind(parent);
                insert.execute(&mut connection).await?;
                let found: (Uid, Option<Uid>, i64) =
                    sqlx::query_as($find).bind(&uid).fetch_one(&mut connection).await?;
                assert_eq!(found, (uid, parent, i64::from(uid)));
                parent = Some(uid);
            }
            let all = "SELECT id FROM orders ORDER BY id";
            let uids: Vec<Uid> = sqlx::query_scalar(all).fetch_all(&mut connection).await?;
            assert_eq!(uids.iter().map(|uid| uid.get()).collect::<Vec<_>>(), NUMBERS);

            sqlx::query($insert).bind(-1_i64).bind(None::<Uid>).execute(&mut connection).await?;
            let lowest = sqlx::query_scalar::<_, Uid>(all).fetch_one(&mut connection).await;
            let error = lowest.expect_err("it is negative").to_string();
            assert!(error.contains("-1 is not a uid"), "{error}");
            let null = "SELECT parent FROM orders WHERE id = 0";
            let null = sqlx::query_scalar::<_, Uid>(null).fetch_one(&mut connection).await;
            assert!(null.is_err(), "a missing uid is an Option");
            let text = "SELECT 'seven'";
            let text = sqlx::query_scalar::<_, Uid>(text).fetch_one(&mut connection).await;
            let error = text.expect_err("it is a text").to_string();
            assert!(error.contains("mismatched types"), "{error}");
            Ok(())
        }
    };
}

uids_go_in_and_out!(
    on_sqlite,
    SqliteConnection,
    "sqlite::memory:",
    "INSERT INTO orders (id, parent) VALUES (?, ?)",
    "SELECT id, parent, id FROM orders WHERE id = ?"
);
uids_go_in_and_out!(
    on_mariadb,
    MySqlConnection,
    address("MARIADB_URL"),
    "INSERT INTO orders (id, parent) VALUES (?, ?)",
    "SELECT id, parent, id FROM orders WHERE id = ?"
);
uids_go_in_and_out!(
    on_postgresql,
    PgConnection,
    address("POSTGRES_URL"),
    "INSERT INTO orders (id, parent) VALUES ($1, $2)",
    "SELECT id, parent, id FROM orders WHERE id = $1"
);

#[tokio::test]
async fn an_unsigned_column_of_mariadb_is_refused() -> Result<(), Box<dyn Error>> {
    let mut connection = MySqlConnection::connect(&address("MARIADB_URL")).await?;
    let unsigned = "SELECT CAST(7 AS UNSIGNED)";
    let found = sqlx::query_scalar::<_, Uid>(unsigned).fetch_one(&mut connection).await;
    let error = found.expect_err("sqlx tells signed from unsigned").to_string();
    assert!(error.contains("UNSIGNED"), "{error}");
    Ok(())
}

/// Binds an array as numbers.
#[tokio::test]
async fn many_keys_at_once_on_postgresql() -> Result<(), Box<dyn Error>> {
    let mut connection = PgConnection::connect(&address("POSTGRES_URL")).await?;
    let keys: Vec<i64> = NUMBERS.iter().map(|&number| number.cast_signed()).collect();
    let uids: Vec<Uid> =
        sqlx::query_scalar("SELECT unnest($1)").bind(keys).fetch_all(&mut connection).await?;
    assert_eq!(uids.iter().map(|uid| uid.get()).collect::<Vec<_>>(), NUMBERS);
    Ok(())
}
