//! A proxy that splits reads from writes, as ProxySQL and MaxScale do. It understands just enough of MySQL's protocol
//! to send each SELECT outside of a transaction and without `FOR UPDATE` to another server than the rest. Accounts have
//! no password, so both servers accept the same login packet.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Accepts connections until the process ends.
pub struct Splitter {
    port: u16,
    split: Arc<AtomicUsize>,
}

impl Splitter {
    pub fn new(primary: u16, replica: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let split = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&split);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let split = Arc::clone(&counter);
                thread::spawn(move || {
                    // An error means that somebody closed a connection.
                    let _ = Session::open(client, primary, replica, split)
                        .and_then(|mut session| session.serve());
                });
            }
        });
        Self { port, split }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of statements that went to the replica.
    pub fn split(&self) -> usize {
        self.split.load(Ordering::SeqCst)
    }
}

/// A packet with its header.
type Packet = Vec<u8>;

struct Session {
    client: TcpStream,
    primary: TcpStream,
    replica: TcpStream,
    /// The replica's number and the text of each statement, by the primary's number.
    statements: HashMap<u32, (u32, String)>,
    in_transaction: bool,
    split: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Primary,
    Replica,
    Both,
}

impl Session {
    fn open(
        mut client: TcpStream,
        primary: u16,
        replica: u16,
        split: Arc<AtomicUsize>,
    ) -> io::Result<Self> {
        let mut primary = TcpStream::connect((Ipv4Addr::LOCALHOST, primary))?;
        let mut replica = TcpStream::connect((Ipv4Addr::LOCALHOST, replica))?;
        for stream in [&client, &primary, &replica] {
            stream.set_nodelay(true)?;
        }
        read(&mut replica)?;
        let mut greeting = read(&mut primary)?;
        simplify(&mut greeting);
        client.write_all(&greeting)?;
        let answer = read(&mut client)?;
        for server in [&mut replica, &mut primary] {
            server.write_all(&answer)?;
        }
        assert_eq!(read(&mut replica)?[4], 0, "the replica lets the client in");
        client.write_all(&read(&mut primary)?)?;
        let statements = HashMap::new();
        Ok(Self { client, primary, replica, statements, in_transaction: false, split })
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let asked = read(&mut self.client)?;
            let number = asked.get(5..9).and_then(|bytes| bytes.try_into().ok());
            let number = number.map_or(0, u32::from_le_bytes);
            let text = || String::from_utf8_lossy(&asked[5..]).into_owned();
            match asked[4] {
                // Quit
                0x01 => return Ok(()),
                // Query
                0x03 => {
                    let route = self.route(&text());
                    self.relay(route, &asked)?;
                }
                // Prepare
                0x16 => {
                    let [there, here] = self.ask_both(&asked, prepared)?;
                    let id = |answer: &[Packet]| {
                        let id = answer[0][5..9].try_into().expect("an id");
                        (answer[0][4] == 0).then(|| u32::from_le_bytes(id))
                    };
                    if let (Some(there), Some(here)) = (id(&there), id(&here)) {
                        self.statements.insert(here, (there, text()));
                    }
                    self.client.write_all(&here.concat())?;
                }
                // Execute
                0x17 => {
                    let (there, text) = self.statements[&number].clone();
                    let route = self.route(&text);
                    let mut asked = asked;
                    if route == Route::Replica {
                        asked[5..9].copy_from_slice(&there.to_le_bytes());
                    }
                    self.relay(route, &asked)?;
                }
                // Close a statement; there is no answer.
                0x19 => {
                    let mut asked = asked;
                    let there = self.statements.remove(&number);
                    self.primary.write_all(&asked)?;
                    if let Some((there, _)) = there {
                        asked[5..9].copy_from_slice(&there.to_le_bytes());
                        self.replica.write_all(&asked)?;
                    }
                }
                _ => {
                    self.relay(Route::Both, &asked)?;
                }
            }
        }
    }

    fn route(&mut self, statement: &str) -> Route {
        let statement = statement.trim_start().to_uppercase();
        let begins = |word: &str| statement.starts_with(word);
        if begins("START TRANSACTION") {
            self.in_transaction = true;
        } else if begins("COMMIT") || begins("ROLLBACK") {
            self.in_transaction = false;
        } else if begins("SET") {
            return Route::Both;
        } else if (begins("SELECT") || begins("SHOW"))
            && !self.in_transaction
            && !statement.contains("FOR UPDATE")
        {
            self.split.fetch_add(1, Ordering::SeqCst);
            return Route::Replica;
        }
        Route::Primary
    }

    /// Asks, and passes the answer on; the primary's if both were asked.
    fn relay(&mut self, route: Route, asked: &[u8]) -> io::Result<()> {
        let given = match route {
            Route::Primary => ask(&mut self.primary, asked, result)?,
            Route::Replica => ask(&mut self.replica, asked, result)?,
            Route::Both => {
                let [_, given] = self.ask_both(asked, result)?;
                given
            }
        };
        self.client.write_all(&given.concat())
    }

    fn ask_both(&mut self, asked: &[u8], answer: Answer) -> io::Result<[Vec<Packet>; 2]> {
        Ok([ask(&mut self.replica, asked, answer)?, ask(&mut self.primary, asked, answer)?])
    }
}

/// Reads one kind of answer.
type Answer = fn(&mut TcpStream) -> io::Result<Vec<Packet>>;

fn ask(server: &mut TcpStream, asked: &[u8], answer: Answer) -> io::Result<Vec<Packet>> {
    server.write_all(asked)?;
    answer(server)
}

fn read(stream: &mut TcpStream) -> io::Result<Packet> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    let mut packet = head.to_vec();
    packet.resize(4 + length, 0);
    stream.read_exact(&mut packet[4..])?;
    Ok(packet)
}

/// Turns off TLS and compression, and chooses the plain form of results, with packets that end their parts.
fn simplify(greeting: &mut Packet) {
    let version = greeting[5..].iter().position(|byte| *byte == 0).expect("it ends");
    let low = 5 + version + 1 + 4 + 8 + 1;
    greeting[low] &= !0x20;
    greeting[low + 1] &= !0x08;
    let high = low + 5;
    greeting[high + 1] &= !0x01;
    // MariaDB's extensions.
    let extended = high + 2 + 1 + 6;
    greeting[extended..extended + 4].fill(0);
}

fn is_end(packet: &[u8]) -> bool {
    packet[4] == 0xfe && packet.len() < 13
}

/// Reads packets up to the one that ends this part.
fn part(stream: &mut TcpStream, packets: &mut Vec<Packet>) -> io::Result<()> {
    loop {
        let packet = read(stream)?;
        let is_over = is_end(&packet) || packet[4] == 0xff;
        packets.push(packet);
        if is_over {
            return Ok(());
        }
    }
}

fn result(stream: &mut TcpStream) -> io::Result<Vec<Packet>> {
    let mut packets = vec![read(stream)?];
    // No rows or an error; otherwise columns, then rows.
    if !matches!(packets[0][4], 0x00 | 0xff) {
        part(stream, &mut packets)?;
        part(stream, &mut packets)?;
    }
    Ok(packets)
}

fn prepared(stream: &mut TcpStream) -> io::Result<Vec<Packet>> {
    let mut packets = vec![read(stream)?];
    let head = packets[0].clone();
    if head[4] == 0 {
        for count in [&head[9..11], &head[11..13]] {
            if count != [0, 0] {
                part(stream, &mut packets)?;
            }
        }
    }
    Ok(packets)
}
