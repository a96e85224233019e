//! Errors as text, with their causes.

use std::error::Error;

use uidring::adapter::Chain;

/// Returns the texts of an error and of its causes on one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    Chain(error).to_string()
}
