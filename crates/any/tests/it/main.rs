//! Generators by their URLs, on files and on real servers.
#![cfg(unix)]

mod all_options;
mod doors;
mod malformed;
mod page;
mod takes;
mod urls;
