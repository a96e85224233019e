//! Measures the binary batch over a Unix socket beside a server that writes the same fixed bytes:
//! `cargo run --release -p uidring-server --example batch_speed [COUNT [ROUNDS]]`.

use std::env;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, PerThreadGenerator};
use uidring_client::{Client, ClientError};
use uidring_server::{Issuer, Listener, Names, Protocol, Server};

/// How long each is measured at a time: all of them see the same of what else the machine does.
const TURN: Duration = Duration::from_millis(100);

/// Answers each request with the same bytes: what a server without any generator reaches.
fn serve_fixed(path: &Path, count: usize) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let head = [0, u32::try_from(count).unwrap_or(u32::MAX)].map(u32::to_le_bytes).concat();
    let answer = [head, vec![7; 8 * count]].concat();
    thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _): (UnixStream, _) = listener.accept()?;
        let mut request = [0; 8];
        loop {
            stream.read_exact(&mut request)?;
            stream.write_all(&answer)?;
        }
    });
    Ok(())
}

/// Answers in a second.
fn rate(client: &mut Client, name: &str, ids: &mut [u64]) -> Result<f64, ClientError> {
    let begin = Instant::now();
    let (mut answers, mut last) = (0, 0);
    while begin.elapsed() < TURN {
        client.fill(name, ids)?;
        // The fixed bytes are no ids, and looked at all the same.
        assert!(ids.is_sorted(), "increasing ids");
        assert!(name.is_empty() || ids[0] > last, "ids above those of earlier answers");
        last = ids[ids.len() - 1];
        answers += 1;
    }
    Ok(f64::from(answers) / begin.elapsed().as_secs_f64())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (count, rounds) = (next(4096)?.max(1), next(5)?.max(1));
    let folder = tempfile::tempdir()?;
    let (fixed, batch) = (folder.path().join("fixed"), folder.path().join("batch"));
    serve_fixed(&fixed, count)?;
    let ordered = Arc::new(CachedUidGenerator::builder().worker_id(1).build()?);
    let shared = Arc::new(CachedUidGenerator::builder().worker_id(2).build()?);
    let names = Names::new()
        .with("ordered", Issuer::Ordered(ordered))
        .with("per-thread", Issuer::PerThread(PerThreadGenerator::new(shared)));
    let listener = Listener::unix(Protocol::Batch, UnixListener::bind(&batch)?, &batch);
    let running = Server::new().listen(listener).start(names)?;
    let (mut fixed, mut batch) = (Client::connect_unix(fixed)?, Client::connect_unix(batch)?);
    let mut ids = vec![0; count];
    let (mut bases, mut rates, mut ratios) =
        (Vec::new(), [const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    let kinds = ["ordered", "per-thread"];
    for _ in 0..rounds {
        let base = rate(&mut fixed, "", &mut ids)?;
        bases.push(base);
        for (index, name) in kinds.into_iter().enumerate() {
            let rate = rate(&mut batch, name, &mut ids)?;
            rates[index].push(rate);
            ratios[index].push(rate / base);
        }
    }
    println!("medians of {rounds} rounds, answers of {count} ids a second");
    println!("fixed bytes: {:.0}", median(bases));
    for ((name, rates), ratios) in kinds.into_iter().zip(rates).zip(ratios) {
        let (rate, ratio) = (median(rates), median(ratios));
        let millions = rate * count as f64 / 1e6;
        println!(
            "{name}: {rate:.0}, {ratio:.2} of the fixed bytes, {millions:.0} million ids a second"
        );
    }
    running.stop(Duration::from_secs(5));
    Ok(())
}
