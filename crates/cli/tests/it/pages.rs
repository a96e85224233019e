//! What people read, run as it stands: the pages of `docs`, the program's help, and the README.

mod docs;
mod help;
mod readme;
