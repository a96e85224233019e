//! Thrift and the binary batch over real sockets, with clients of other projects and with hostile bytes.

mod batch;
mod client;
mod hostile;
mod lead;
mod support;
mod thrift;
