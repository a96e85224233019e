//! Flags that several commands share.

pub mod layout;
pub mod options;
pub mod url;
