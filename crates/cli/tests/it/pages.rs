//! Runs what people read: the pages of `docs`, the program's help, and the README.

mod docs;
mod help;
mod readme;
