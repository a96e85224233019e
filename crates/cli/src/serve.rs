//! `uidring serve`.

mod access;
mod args;
mod check;
mod config;
mod names;
mod place;
mod sockets;

use std::env;
use std::thread;
use std::time::Duration;

use clap::Command;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use uidring_server::{Limits, Name, Names, Protocol, Running, Server};

use self::access::Access;
pub use self::args::ServeArgs;
use crate::failure::Failure;
use crate::{ending, report};

/// Open files that are not connections.
const OTHER_FILES: u64 = 64;

/// Serves until a signal ends it. `command` is the whole command line.
pub fn run(args: ServeArgs, command: fn() -> Command) -> Result<(), Failure> {
    let (args, file) = match &args.config {
        Some(path) => config::load(path, command, &env::args_os().collect::<Vec<_>>())?,
        None => (args, config::File::default()),
    };
    sockets::check(&args)?;
    let names = names::Plan::new(&args, &file)?;
    let server = Server::new()
        .limits(limits(&args))
        .threads(args.limits.threads.unwrap_or_else(usual_threads));
    let (mut access, mut server) = Access::open(&args, server)?;
    if args.check {
        let asks_server = check::check(names)?;
        report::note(match asks_server {
            false => "the settings are right",
            true => "the settings are right; the store was not asked (`uidring doctor` asks it)",
        });
        return Ok(());
    }
    let no_signals = |error| Failure::Failed(format!("receiving signals: {error}"));
    // From here on, SIGHUP is kept: files that change during the start are read again when the server serves.
    let mut signals = Signals::new([SIGHUP]).map_err(no_signals)?;
    let mut sockets = sockets::listen(&args)?;
    // Signals to end are kept, too, so that one that comes as the start finishes is not lost.
    for signal in ending::SIGNALS {
        signals.add_signal(signal).map_err(no_signals)?;
    }
    let (names, described) = ending::start(|| names.open())?;
    for listener in sockets.listeners.drain(..) {
        let address = listener.address();
        let hint = match listener.protocol() {
            Protocol::Http if access.has_tls() => format!("https://{address}/"),
            Protocol::Http => format!("http://{address}/"),
            _ => address.to_owned(),
        };
        report::note(format_args!("{:<7}{hint}", listener.protocol()));
        server = server.listen(listener);
    }
    described.iter().for_each(report::note);
    let running = server
        .start(names)
        .map_err(|error| Failure::Failed(uidring::adapter::Chain(&error).to_string()))?;
    notify(sd_notify::NotifyState::Ready);
    end_when_lost(running.names().clone(), signals.handle());
    while signals.forever().next() == Some(SIGHUP) {
        access.reload(&args, &running);
    }
    let is_lost = signals.handle().is_closed();
    if is_lost {
        signals = Signals::new(ending::SIGNALS).map_err(no_signals)?;
    }
    notify(sd_notify::NotifyState::Stopping);
    // Remove the socket's file before the end: another server may be about to replace this one.
    drop(sockets);
    stop(running, &args, signals);
    let why = "every name has lost the lease of its worker id; a new start gets others";
    if is_lost { Err(Failure::Failed(why.into())) } else { Ok(()) }
}

/// How often to check whether a server has anything left to issue.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Closes the signals once all names have lost their leases. If any other name or a tag can still issue ids, the server
/// runs on, because a new start may find no database.
fn end_when_lost(names: Names, signals: Handle) {
    thread::spawn(move || {
        while !signals.is_closed() {
            if names.have_lost_all_leases() {
                signals.close();
            }
            thread::sleep(LOOK_EVERY);
        }
    });
}

/// Stops the server; at once, if another signal to end comes.
fn stop(running: Running, args: &ServeArgs, mut signals: Signals) {
    let handle = signals.handle();
    let names = running.names().clone();
    let hurry = thread::spawn(move || {
        if let Some(signal) = signals.forever().find(|signal| *signal != SIGHUP) {
            ending::init::end_by(signal);
        }
    });
    let left = running.stop(args.limits.drain);
    if left > 0 {
        report::warning(format_args!(
            "{left} connections had not ended after {:?} and were cut off; --drain allows more time",
            args.limits.drain
        ));
    }
    // Gives leases back.
    names.close();
    report_issued(&names);
    handle.close();
    let _ = hurry.join();
}

fn limits(args: &ServeArgs) -> Limits {
    // Some for listeners, the store and the log.
    let wanted = args.limits.max_connections as u64 + OTHER_FILES;
    let files = rlimit::increase_nofile_limit(wanted).unwrap_or(wanted);
    let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    if room < args.limits.max_connections {
        report::warning(format_args!(
            "at most {room} connections, as this process may open {} files: raise the limit (ulimit -Hn, \
             LimitNOFILE=), or lower --max-connections {}",
            files, args.limits.max_connections
        ));
    }
    let mut limits = Limits::default();
    limits.connections = room.min(args.limits.max_connections);
    limits.batch = args.limits.max_batch;
    limits.idle = args.limits.idle;
    limits.slow = args.limits.slow;
    limits
}

/// Half the processors, up to 8: the clients' load needs some, too.
fn usual_threads() -> usize {
    thread::available_parallelism().map_or(1, |count| (count.get() / 2).clamp(1, 8))
}

/// Tells systemd, if it is there.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        report::warning(format_args!("telling systemd: {error}"));
    }
}

/// Reports how many ids each name has issued, most first.
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
