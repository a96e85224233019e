//! Flags that several commands have.

pub mod layout;
pub mod options;
pub mod url;
