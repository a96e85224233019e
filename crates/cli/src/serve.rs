//! `uidring serve`.

mod args;
mod config;
mod names;
mod place;
mod sockets;

use std::env;
use std::fs;
use std::path::Path;
use std::thread;

use clap::Command;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use uidring_server::{Limits, Name, Names, Protocol, Running, Server};

pub use self::args::ServeArgs;
use crate::failure::Failure;
use crate::{ending, report};

/// Open files that are no connections.
const OTHER_FILES: u64 = 64;

/// Serves until a signal ends it. `command` is the whole command line.
pub fn run(args: ServeArgs, command: fn() -> Command) -> Result<(), Failure> {
    let (args, others) = match &args.config {
        Some(path) => config::load(path, command, &env::args_os().collect::<Vec<_>>())?,
        None => (args, config::Names::new()),
    };
    sockets::check(&args)?;
    let names = names::Plan::new(&args, &others)?;
    let mut server =
        Server::new().limits(limits(&args)).threads(args.threads.unwrap_or_else(usual_threads));
    if let Some(path) = &args.password_file {
        server = server.password(first_line(path)?);
    }
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        server = server.tls(&read(certificate)?, &read(key)?).map_err(|error| {
            Failure::Failed(format!(
                "--tls-cert {} and --tls-key {}: {error}",
                certificate.display(),
                key.display()
            ))
        })?;
    }
    if args.check {
        report::note("the settings are right");
        return Ok(());
    }
    let mut sockets = sockets::listen(&args)?;
    let (names, described) = names.open()?;
    // Not before: a start that waits, for a lease, say, is ended as any program.
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::Failed(format!("receiving signals: {error}")))?;
    ending::init::signals_are_handled();
    for listener in sockets.listeners.drain(..) {
        report::note(format_args!(
            "{:<7}{}",
            listener.protocol(),
            hint(listener.protocol(), listener.address())
        ));
        server = server.listen(listener);
    }
    for line in described {
        report::note(line);
    }
    let running = server
        .start(names)
        .map_err(|error| Failure::Failed(uidring::adapter::Chain(&error).to_string()))?;
    notify(sd_notify::NotifyState::Ready);
    signals.forever().next();
    notify(sd_notify::NotifyState::Stopping);
    // Before the end: another server may be about to take the place.
    sockets.remove_file();
    stop(running, &args, signals);
    Ok(())
}

/// Ends the server; at once, if another signal comes.
fn stop(running: Running, args: &ServeArgs, mut signals: Signals) {
    let handle = signals.handle();
    let names = running.names().clone();
    let hurry = thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            ending::init::end_by(signal);
        }
    });
    let left = running.stop(args.drain);
    if left > 0 {
        report::warning(format_args!(
            "{left} connections had not ended after {:?} and were cut off; --drain allows more time",
            args.drain
        ));
    }
    // Gives leases back.
    names.close();
    report_issued(&names);
    handle.close();
    let _ = hurry.join();
}

fn limits(args: &ServeArgs) -> Limits {
    let mut limits = Limits::default();
    limits.connections = args.max_connections;
    // Some for listeners, the store and the log.
    let wanted =
        u64::try_from(args.max_connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let files = rlimit::increase_nofile_limit(wanted).unwrap_or(wanted);
    let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    if room < args.max_connections {
        report::warning(format_args!(
            "at most {room} connections, as this process may open {} files: raise the limit (ulimit -Hn, \
             LimitNOFILE=), or lower --max-connections {}",
            files, args.max_connections
        ));
        limits.connections = room;
    }
    limits.batch = args.max_batch;
    limits.idle = args.idle;
    limits.slow = args.slow;
    limits
}

/// The load that asks needs processors, too.
fn usual_threads() -> usize {
    thread::available_parallelism().map_or(1, |count| (count.get() / 2).clamp(1, 8))
}

fn hint(protocol: Protocol, address: &str) -> String {
    match protocol {
        Protocol::Http => format!("http://{address}/"),
        _ => address.to_owned(),
    }
}

/// Tells systemd, if it is there.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        report::warning(format_args!("telling systemd: {error}"));
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::Failed(format!("reading {}: {error}", path.display())))
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(read(path)?);
    let text = text.map_err(|_| Failure::Failed(format!("{} is no UTF-8 text", path.display())))?;
    // HTTP knows no spaces around it.
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(Failure::Failed(format!("the first line of {} is empty", path.display()))),
    }
}

/// How many ids each name has issued, those that issued the most first.
fn report_issued(served: &Names) {
    let issued =
        |name: &Name| Protocol::ALL.into_iter().map(|protocol| name.issued(protocol)).sum();
    let mut all: Vec<(u64, _)> =
        served.list().into_iter().map(|name| (issued(&name), name)).collect();
    all.retain(|(ids, _)| *ids > 0 || report::is_verbose());
    all.sort_by_key(|(ids, _)| std::cmp::Reverse(*ids));
    for (ids, name) in all.iter().take(names::SHOWN) {
        report::note(format_args!("{}: {ids} ids issued", name.text()));
    }
    if let Some(rest @ [_, ..]) = all.get(names::SHOWN..) {
        let ids: u64 = rest.iter().map(|(ids, _)| ids).sum();
        report::note(format_args!("{ids} ids of {} more names issued", rest.len()));
    }
}
