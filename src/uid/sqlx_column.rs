//! Uids as sqlx columns.

use super::Uid;

/// Implements the traits of one version of sqlx for every database that has `i64` columns. The buffer has a lifetime in
/// 0.8, but not in 0.9.
macro_rules! column {
    ($feature:literal, $sqlx:ident, $($buffer_lifetime:tt)*) => {
        #[cfg(feature = $feature)]
        const _: () = {
            use $sqlx::database::Database;
            use $sqlx::decode::Decode;
            use $sqlx::encode::{Encode, IsNull};
            use $sqlx::error::{BoxDynError, UnexpectedNullError};
            use $sqlx::types::Type;
            use $sqlx::value::ValueRef;

            /// A `BIGINT`.
            impl<DB: Database> Type<DB> for Uid
            where
                i64: Type<DB>,
            {
                fn type_info() -> DB::TypeInfo {
                    <i64 as Type<DB>>::type_info()
                }

                fn compatible(column: &DB::TypeInfo) -> bool {
                    <i64 as Type<DB>>::compatible(column)
                }
            }

            /// Written as a `BIGINT`.
            impl<'q, DB: Database> Encode<'q, DB> for Uid
            where
                i64: Encode<'q, DB>,
            {
                fn encode_by_ref(
                    &self,
                    buffer: &mut <DB as Database>::ArgumentBuffer $($buffer_lifetime)*,
                ) -> Result<IsNull, BoxDynError> {
                    self.0.encode_by_ref(buffer)
                }
            }

            /// Read from a `BIGINT` that is not negative.
            impl<'r, DB: Database> Decode<'r, DB> for Uid
            where
                i64: Decode<'r, DB>,
            {
                fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
                    // SQLite's driver reads NULL as 0, which would be a valid uid.
                    if value.is_null() {
                        return Err(UnexpectedNullError.into());
                    }
                    Ok(i64::decode(value)?.try_into()?)
                }
            }
        };
    };
}

column!("sqlx-0_8", sqlx_core_0_8, <'q>);
column!("sqlx-0_9", sqlx_core_0_9,);
