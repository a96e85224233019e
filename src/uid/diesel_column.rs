//! Uids as diesel columns.

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::BigInt;

use super::Uid;

/// Written as a `BIGINT`.
impl<DB: Backend> ToSql<BigInt, DB> for Uid
where
    i64: ToSql<BigInt, DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.0.to_sql(out)
    }
}

/// Read from a `BIGINT` that is not negative.
impl<DB: Backend> FromSql<BigInt, DB> for Uid
where
    i64: FromSql<BigInt, DB>,
{
    fn from_sql(bytes: DB::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(i64::from_sql(bytes)?.try_into()?)
    }
}
