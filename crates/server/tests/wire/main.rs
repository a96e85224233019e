//! Thrift and the binary batch over real sockets, with clients that others wrote and with hostile bytes.

mod batch;
mod client;
mod hostile;
mod lead;
mod support;
mod thrift;
