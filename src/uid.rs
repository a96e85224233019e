//! The 63-bit id and its conversions.

#[cfg(feature = "diesel-2")]
mod diesel_column;
#[cfg(feature = "serde")]
mod serde;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
mod sqlx_column;
mod text;

pub use self::text::{ParseUidError, UidText};
use crate::chain::{Chain, error_traits};

/// A unique id: a whole number from 0 to 2^63 − 1, so never negative as an `i64`.
///
/// Uids sort as numbers, which is roughly by time. Text forms:
///
/// | form | method | reads back | length |
/// |---|---|---|---|
/// | decimal | `Display` | `FromStr` | 1 to 19 |
/// | hex | [`hex`](Self::hex), `LowerHex`, `UpperHex` | `FromStr`, [`from_hex`](Self::from_hex) | `0x` and 16 digits |
/// | base62 | [`base62`](Self::base62) | [`from_base62`](Self::from_base62) | 11 |
/// | Crockford base32 | [`base32`](Self::base32) | [`from_base32`](Self::from_base32) | 13 |
///
/// The texts of `hex`, `base62` and `base32` have a fixed length and sort byte by byte, like the numbers.
///
/// ```
/// use uidring::Uid;
///
/// let uid: Uid = "3125927076831231".parse()?;
/// assert_eq!(uid.hex().as_str(), "0x000b1b039d021fff");
/// assert_eq!(Uid::from_base62(uid.base62().as_str())?, uid);
/// assert_eq!(Uid::from_base32(&uid.base32().to_lowercase())?, uid);
/// assert_eq!(i64::from(uid), 3_125_927_076_831_231);
/// # Ok::<(), uidring::ParseUidError>(())
/// ```
///
/// The default is 0, for buffers for [`fill`](crate::UidGenerator::fill).
///
/// # As a column
///
/// With the feature `sqlx-0_8`, `sqlx-0_9` or `diesel-2`, you can use a uid in that library like an `i64`: it is bound
/// and read as a signed `BIGINT`, with any driver, and can be a table's key. Reading a negative number from a column is
/// an error. With sqlx, bind arrays as `Vec<i64>`; MySQL's `BIGINT UNSIGNED` does not fit. `sqlx-0_9` needs Rust 1.94,
/// like sqlx 0.9.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "diesel-2",
    derive(diesel::expression::AsExpression, diesel::deserialize::FromSqlRow),
    diesel(sql_type = diesel::sql_types::BigInt)
)]
#[repr(transparent)]
pub struct Uid(
    /// Never negative. Not a `u64`, because database drivers borrow a column's `i64` from it.
    i64,
);

impl Uid {
    /// The greatest value, 2^63 − 1.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the uid with this number, or `None` above [`MAX`](Self::MAX).
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.get() { Some(Self(number.cast_signed())) } else { None }
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0.cast_unsigned()
    }

    /// For numbers composed from checked fields of a layout, which never has more than 63 bits.
    #[inline]
    pub(crate) const fn from_layout(number: u64) -> Self {
        debug_assert!(number <= Self::MAX.get());
        Self(number.cast_signed())
    }
}

/// The number is negative, or does not fit in 63 bits.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a uid: uids are whole numbers from 0 to 9223372036854775807")]
pub struct UidRangeError(i128);

error_traits!(UidRangeError);

impl TryFrom<u64> for Uid {
    type Error = UidRangeError;

    fn try_from(number: u64) -> Result<Self, UidRangeError> {
        Self::new(number).ok_or(UidRangeError(number.into()))
    }
}

impl TryFrom<i64> for Uid {
    type Error = UidRangeError;

    fn try_from(number: i64) -> Result<Self, UidRangeError> {
        if number >= 0 { Ok(Self(number)) } else { Err(UidRangeError(number.into())) }
    }
}

impl From<Uid> for u64 {
    fn from(uid: Uid) -> Self {
        uid.get()
    }
}

impl From<Uid> for i64 {
    fn from(uid: Uid) -> Self {
        uid.0
    }
}
