//! Uids as diesel columns on three databases; scripts/consumers starts two of them.

use std::env;
use std::error::Error;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use uidring::Uid;

diesel::table! {
    orders (id) {
        id -> BigInt,
        parent -> Nullable<BigInt>,
    }
}

#[derive(Debug, PartialEq, Eq, Hash, Queryable, Selectable, Insertable, Identifiable)]
#[diesel(table_name = orders)]
struct Order {
    id: Uid,
    parent: Option<Uid>,
}

/// Includes the smallest, one that JavaScript rounds, and the greatest.
const NUMBERS: [u64; 4] = [0, 62, (1 << 53) + 1, i64::MAX as u64];

fn address(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: scripts/consumers does"))
}

macro_rules! uids_go_in_and_out {
    ($test:ident, $connection:ty, $address:expr) => {
        #[test]
        fn $test() -> Result<(), Box<dyn Error>> {
            let mut connection = <$connection>::establish(&$address)?;
            let connection = &mut connection;
            diesel::sql_query(
                "CREATE TEMPORARY TABLE orders (id BIGINT PRIMARY KEY, parent BIGINT)",
            )
            .execute(connection)?;
            let mut last = None;
            for number in NUMBERS {
                let id = Uid::new(number).ok_or("not a uid")?;
                let order = Order { id, parent: last };
                diesel::insert_into(orders::table).values(&order).execute(connection)?;
                let found = orders::table.find(id).select(Order::as_select()).first(connection)?;
                assert_eq!(found, order);
                let number: i64 =
                    orders::table.find(order.id()).select(orders::id).first(connection)?;
                assert_eq!(number, i64::from(id));
                last = Some(id);
            }
            let keys: Vec<_> = NUMBERS.iter().filter_map(|&number| Uid::new(number)).collect();
            let found: Vec<Uid> = orders::table
                .filter(orders::id.eq_any(&keys))
                .order(orders::id)
                .select(orders::id)
                .load(connection)?;
            assert_eq!(found, keys);
            let children: Vec<Uid> = orders::table
                .filter(orders::parent.eq(Some(keys[0])))
                .select(orders::id)
                .load(connection)?;
            assert_eq!(children, [keys[1]]);

            diesel::insert_into(orders::table).values(orders::id.eq(-1_i64)).execute(connection)?;
            let lowest = orders::table.find(-1_i64).select(orders::id).first::<Uid>(connection);
            let error = lowest.expect_err("it is negative");
            let cause = error.source().expect("the column's").to_string();
            assert!(cause.contains("-1 is not a uid"), "{error}: {cause}");
            let bound =
                diesel::select(keys[3].into_sql::<BigInt>()).get_result::<Uid>(connection)?;
            assert_eq!(bound, Uid::MAX);
            Ok(())
        }
    };
}

uids_go_in_and_out!(on_sqlite, SqliteConnection, ":memory:");
uids_go_in_and_out!(on_mariadb, MysqlConnection, address("MARIADB_URL"));
uids_go_in_and_out!(on_postgresql, PgConnection, address("POSTGRES_URL"));
