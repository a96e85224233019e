//! HTTP with real clients: curl, and sockets that send what no good client would.

mod docs;
mod drain;
mod limits;
mod many_names;
mod new_tags;
mod password;
mod paths;
mod ready;
mod served;
mod wire;
