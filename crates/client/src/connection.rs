//! One connection, and the format of requests and answers.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(unix)]
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{ClientError, Refusal};

const VERSION: u8 = 1;
const PASSWORD: u8 = 0x81;

/// The greatest length of a server's text. Real ones are far shorter.
const MAX_TEXT: usize = 64 * 1024;

/// The server's address.
#[derive(Clone, Debug)]
pub enum Address {
    #[cfg(unix)]
    Unix(PathBuf),
    Tcp(Vec<SocketAddr>),
}

/// A TCP or Unix stream.
trait Stream: Read + Write + Debug + Send + Sync + UnwindSafe + RefUnwindSafe {}

impl Stream for TcpStream {}
#[cfg(unix)]
impl Stream for UnixStream {}

#[derive(Debug)]
pub struct Connection {
    stream: Box<dyn Stream>,
    timeout: Duration,
    /// An answer. `received` bytes of it have come.
    bytes: Vec<u8>,
    received: usize,
}

impl Connection {
    pub fn new(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        let stream: io::Result<Box<dyn Stream>> = match address {
            #[cfg(unix)]
            Address::Unix(path) => UnixStream::connect(path).and_then(|stream| {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Box::new(stream) as _)
            }),
            Address::Tcp(addresses) => {
                connect_tcp(addresses, timeout).map(|stream| Box::new(stream) as _)
            }
        };
        let stream = stream.map_err(|cause| {
            let address = match address {
                #[cfg(unix)]
                Address::Unix(path) => path.display().to_string(),
                Address::Tcp(addresses) => {
                    let texts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
                    texts.join(", ")
                }
            };
            ClientError::Connect { address, cause }
        })?;
        Ok(Self { stream, timeout, bytes: Vec::new(), received: 0 })
    }

    pub fn authenticate(&mut self, password: &str) -> Result<(), ClientError> {
        match self.ask(PASSWORD, password, 0)? {
            [] => Ok(()),
            _ => Err(ClientError::NoAnswer("ids where none were asked for".to_owned())),
        }
    }

    pub fn ids(&mut self, name: &str, count: u32, out: &mut [u64]) -> Result<(), ClientError> {
        let ids = self.ask(VERSION, name, count)?;
        // All have come, so `out` is filled completely or not at all.
        for (id, bytes) in out.iter_mut().zip(ids.as_chunks().0) {
            *id = u64::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// Sends a request, and returns the bytes of the ids.
    fn ask(&mut self, version: u8, text: &str, count: u32) -> Result<&[u8], ClientError> {
        let Ok(length) = u8::try_from(text.len()) else {
            return Err(ClientError::LongName { length: text.len() });
        };
        let mut request = Vec::with_capacity(8 + text.len());
        request.extend_from_slice(&[version, length, 0, 0]);
        request.extend_from_slice(&count.to_le_bytes());
        request.extend_from_slice(text.as_bytes());
        let timeout = self.timeout;
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::TimedOut(timeout),
            _ => ClientError::Broken(error),
        };
        self.received = 0;
        let sent = self.stream.write_all(&request);
        // A server that closed the connection may have said why.
        if let Err(error) = sent
            && !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
        {
            return Err(failed(error));
        }
        self.receive(8, 8 + 8 * count as usize).map_err(failed)?;
        let words = self.bytes[..8].as_chunks().0;
        let (status, length) = (u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]));
        let kind = match status {
            0 if length == count => {
                let end = 8 + 8 * count as usize;
                self.receive(end, end).map_err(failed)?;
                return Ok(&self.bytes[8..end]);
            }
            0 => {
                let text = format!("{length} ids where {count} were asked for");
                return Err(ClientError::NoAnswer(text));
            }
            1 => Refusal::BadRequest,
            2 => Refusal::UnknownName,
            3 => Refusal::TryAgain,
            4 => Refusal::Failed,
            5 => Refusal::NotAllowed,
            _ => return Err(ClientError::NoAnswer(format!("it begins with the status {status}"))),
        };
        if length as usize > MAX_TEXT {
            return Err(ClientError::NoAnswer(format!("a text of {length} bytes")));
        }
        let end = 8 + length as usize;
        self.receive(end, end).map_err(failed)?;
        let text = String::from_utf8_lossy(&self.bytes[8..end]).into_owned();
        Err(ClientError::Refused { kind, text })
    }

    /// Reads until `wanted` bytes of an answer have come, but never more than `most`.
    fn receive(&mut self, wanted: usize, most: usize) -> io::Result<()> {
        if self.bytes.len() < most {
            self.bytes.resize(most, 0);
        }
        // The socket's timeout applies to each read, so a server that sends single bytes could go on forever.
        let begin = Instant::now();
        while self.received < wanted {
            match self.stream.read(&mut self.bytes[self.received..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.received < wanted && begin.elapsed() >= self.timeout {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

fn connect_tcp(addresses: &[SocketAddr], timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host's name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
