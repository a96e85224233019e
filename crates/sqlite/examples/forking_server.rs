//! A server that forks: a child gets no uids from its parent's generator, and builds its own.
//!
//! `cargo run -p uidring-sqlite --example forking_server`
// fork is the operating system's; std has none of it.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process;

use uidring::{CachedUidGenerator, TakeError, Uid};
use uidring_sqlite::{SqliteStore, SqliteWorkerNodes};

const CHILDREN: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    // A worker id for each generator, which no other ever had.
    let workers = SqliteStore::new(folder.path().join("uidring.db")).create(true).worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers.clone()).build()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    for _ in 0..CHILDREN {
        // SAFETY: the child allocates, which glibc, musl and macOS allow after a fork, and takes no lock
        // that another thread of the parent may have held.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error().into()),
            0 => process::exit(serve(&listener, &generator, &workers).is_err().into()),
            _ => {}
        }
    }
    // The parent's own uids stay apart from theirs.
    let mut uids = HashSet::from([generator.next_uid()?]);
    for _ in 0..CHILDREN {
        let mut uid = String::new();
        TcpStream::connect(listener.local_addr()?)?.read_to_string(&mut uid)?;
        let uid: Uid = uid.parse()?;
        println!("{uid} of worker {}", generator.decode(uid)?.worker_id);
        assert!(uids.insert(uid));
        let mut status = 0;
        // SAFETY: a place for the status.
        assert!(unsafe { libc::wait(&raw mut status) } > 0 && status == 0, "{status}");
    }
    Ok(())
}

fn serve(
    listener: &TcpListener,
    inherited: &CachedUidGenerator,
    workers: &SqliteWorkerNodes,
) -> Result<(), Box<dyn Error>> {
    assert_eq!(inherited.next_uid(), Err(TakeError::Forked));
    let own = CachedUidGenerator::builder().worker_from(workers.clone()).build()?;
    write!(listener.accept()?.0, "{}", own.next_uid()?)?;
    Ok(())
}
