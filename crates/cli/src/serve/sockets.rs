//! The sockets of a server: requested, default, or handed over by systemd.

use std::env;
use std::fmt::Display;
use std::fs;
#[cfg(target_os = "linux")]
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use socket2::{Domain, Socket, Type};
use uidring::adapter::Chain;
use uidring_server::{Listener, Protocol};
use uidring_store::check_path;
use uidring_store::files::{create_folder, data_folder};

use super::args::ServeArgs;
use super::place::{BatchPlace, Place};
use crate::failure::Failure;
use crate::report;

/// Listeners, and the file of the Unix socket.
#[derive(Default)]
pub struct Sockets {
    pub listeners: Vec<Listener>,
    /// With its inode.
    file: Option<(PathBuf, u64)>,
}

/// Removes the socket's file, unless it is another server's by now.
impl Drop for Sockets {
    fn drop(&mut self) {
        if let Some((path, inode)) = self.file.take()
            && fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == inode)
        {
            // If it stays, nobody listens on it, and the next start replaces it.
            let _ = fs::remove_file(path);
        }
    }
}

/// The longest path that fits the system's address of a socket.
const MAX_SOCKET_PATH: usize = 107;

/// The protocols over TCP, each with its requested place and its default port. Requested places come first, so that no
/// default port takes one of them. By default, Thrift is not served if there is a password, because it cannot send one.
fn tcp_places(args: &ServeArgs) -> [(Protocol, Option<&Place>, u16); 3] {
    let nowhere = args.password_file.is_some().then_some(&Place::Nowhere);
    let mut places = [
        (Protocol::Redis, args.redis.as_ref(), 6379),
        (Protocol::Http, args.http.as_ref(), 8080),
        (Protocol::Thrift, args.thrift.as_ref().or(nowhere), 7609),
    ];
    places.sort_by_key(|(_, place, _)| place.is_none());
    places
}

/// The requested addresses of protocols over TCP, as written and resolved.
fn tcp_addresses(args: &ServeArgs) -> impl Iterator<Item = (Protocol, &str, &[SocketAddr])> {
    tcp_places(args).into_iter().filter_map(|(protocol, place, _)| match place {
        Some(Place::At(text, addresses)) => Some((protocol, &**text, &**addresses)),
        _ => None,
    })
}

/// Checks where to listen without listening.
pub fn check(args: &ServeArgs) -> Result<(), Failure> {
    if args.tls_cert.is_some() != args.tls_key.is_some() {
        return Err(Failure::Usage("--tls-cert and --tls-key need each other".into()));
    }
    let mut is_reachable = false;
    for (protocol, text, addresses) in tcp_addresses(args) {
        is_reachable |= addresses.iter().any(|address| !address.ip().is_loopback());
        if is_reachable && !args.expose {
            return Err(Failure::Usage(format!(
                "--{protocol} {text} can be reached by other hosts; add --expose if that is meant"
            )));
        }
        if protocol == Protocol::Thrift && args.password_file.is_some() {
            return Err(Failure::Usage(
                "--thrift has no way to say a password: leave out --password-file or --thrift"
                    .into(),
            ));
        }
    }
    if is_reachable {
        warn_of_others(args);
    }
    if let Some(BatchPlace::At(path)) = &args.batch {
        check_path("the socket of --batch", path).map_err(Failure::usage)?;
    }
    check_apart(args)?;
    // systemd may hand over others.
    if tcp_places(args).iter().all(|(_, place, _)| matches!(place, Some(Place::Nowhere)))
        && matches!(args.batch, Some(BatchPlace::Nowhere))
        && env::var_os("LISTEN_FDS").is_none()
    {
        return Err(Failure::Usage(NOWHERE.into()));
    }
    Ok(())
}

const NOWHERE: &str = "there is nowhere to listen: let one of --redis, --http, --thrift and --batch be another than \
                       none";

/// Refuses an address that two protocols would share.
fn check_apart(args: &ServeArgs) -> Result<(), Failure> {
    let mut taken: Vec<(Protocol, SocketAddr)> = Vec::new();
    for (protocol, text, addresses) in tcp_addresses(args) {
        let rival = |at: &SocketAddr| taken.iter().find(|(_, other)| do_meet(*at, *other));
        // The server listens on the first that is available.
        match addresses.iter().find(|at| rival(at).is_none()) {
            Some(at) => taken.push((protocol, *at)),
            None => {
                let other = addresses.iter().find_map(rival).map_or(protocol, |(other, _)| *other);
                return Err(Failure::Usage(format!(
                    "--{protocol} {text} is where --{other} listens: choose another port for one of them"
                )));
            }
        }
    }
    Ok(())
}

/// Whether only one of two addresses can be listened on.
fn do_meet(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    // IPv6's wildcard also covers IPv4.
    let is_any = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    one.port() != 0 && one.port() == other.port() && (a == b || is_any(a, b) || is_any(b, a))
}

/// Tries the places without listening. One in use is only a warning: its user may be the very server that these
/// settings are for.
pub fn try_places(args: &ServeArgs) -> Result<(), Failure> {
    for (protocol, text, addresses) in tcp_addresses(args) {
        // One available address is enough.
        let tried = addresses.iter().map_while(|at| try_address(*at).err());
        let mut failures: Vec<_> = tried.collect();
        if failures.len() == addresses.len()
            && let Some(error) = failures.pop()
        {
            in_use_or(protocol, text, error)?;
        }
    }
    if let Some(BatchPlace::At(path)) = &args.batch {
        let tried = check_socket_path(path).and_then(|()| can_be_made(path));
        tried.or_else(|error| in_use_or(Protocol::Batch, path.display(), error))?;
    }
    Ok(())
}

fn in_use_or(protocol: Protocol, text: impl Display, error: io::Error) -> Result<(), Failure> {
    if error.kind() != io::ErrorKind::AddrInUse {
        return Err(cannot_listen(protocol, text, &error));
    }
    report::warning(format_args!(
        "--{protocol} {text} is in use now: a start fails unless that ends before, as the server does that these \
         settings are for"
    ));
    Ok(())
}

fn cannot_listen(protocol: Protocol, text: impl Display, error: &io::Error) -> Failure {
    Failure::Failed(format!("listening on --{protocol} {text}: {error}"))
}

/// Binds the address without listening.
fn try_address(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As std does, so that connections of an earlier server do not matter.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

/// Fails if no socket can be created in the folder of `path`.
fn can_be_made(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    // The root of the file system exists.
    match path.ancestors().skip(1).find(|folder| folder.exists()) {
        Some(folder) => tempfile::tempfile_in(folder).map(drop),
        None => Ok(()),
    }
}

fn warn_of_others(args: &ServeArgs) {
    if args.password_file.is_none() || args.tls_cert.is_none() {
        report::warning(
            "other hosts can reach this server without a password, or read what is said: \
             --password-file and --tls-cert protect it",
        );
    }
}

/// Listens on all places of the settings.
pub fn listen(args: &ServeArgs) -> Result<Sockets, Failure> {
    let mut sockets = Sockets::default();
    let inherited = inherit(args, &mut sockets)?;
    for (protocol, place, port) in tcp_places(args) {
        if inherited.contains(&protocol) {
            continue;
        }
        match place {
            Some(Place::Nowhere) => {}
            Some(Place::At(text, addresses)) => {
                let socket = TcpListener::bind(&**addresses)
                    .map_err(|error| cannot_listen(protocol, text, &error))?;
                sockets.listeners.push(Listener::tcp(protocol, socket));
            }
            None => match TcpListener::bind(("127.0.0.1", port)) {
                Ok(socket) => sockets.listeners.push(Listener::tcp(protocol, socket)),
                Err(error) => report::warning(format_args!(
                    "{protocol} is not served: 127.0.0.1:{port}: {error}: what clients get there is not \
                     from here; --{protocol} names another port, or none"
                )),
            },
        }
    }
    if !inherited.contains(&Protocol::Batch) {
        listen_for_batches(args, &mut sockets)?;
    }
    if sockets.listeners.is_empty() {
        return Err(Failure::Failed(
            "no default address is free: is another `uidring serve` running? Name a free one, as --http 127.0.0.1:8081"
                .into(),
        ));
    }
    Ok(sockets)
}

/// Takes over the sockets of systemd's socket activation, which names them by protocol.
fn inherit(args: &ServeArgs, sockets: &mut Sockets) -> Result<Vec<Protocol>, Failure> {
    let mut handed = ListenFd::from_env();
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut protocols = Vec::new();
    for index in 0..handed.len() {
        let name = names.next().unwrap_or_default();
        let failed = |what: &dyn Display| {
            Failure::Failed(format!("socket {} of systemd, `{name}`: {what}", index + 1))
        };
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
        let protocol = protocol.ok_or_else(|| {
            failed(&"FileDescriptorName= names no protocol: redis, http, thrift or batch")
        })?;
        if protocol == Protocol::Thrift && args.password_file.is_some() {
            return Err(failed(
                &"Thrift has no way to say a password, and --password-file asks for one",
            ));
        }
        let listener = match protocol {
            Protocol::Batch => {
                handed.take_unix_listener(index).map(|socket| socket.map(inherited_unix))
            }
            _ => {
                let socket = handed.take_tcp_listener(index);
                socket.map(|socket| socket.map(|socket| Listener::tcp(protocol, socket)))
            }
        };
        let listener = listener.map_err(|error| failed(&error))?;
        if let Some(listener) = listener.as_ref().filter(|listener| !listener.is_local()) {
            if !args.expose {
                let text = "can be reached by other hosts; add --expose if that is meant";
                return Err(failed(&format_args!("{} {text}", listener.address())));
            }
            warn_of_others(args);
        }
        sockets.listeners.extend(listener);
        protocols.push(protocol);
    }
    Ok(protocols)
}

fn inherited_unix(socket: UnixListener) -> Listener {
    let address = socket.local_addr().ok();
    let path = address.and_then(|address| address.as_pathname().map(Path::to_owned));
    Listener::unix(Protocol::Batch, socket, &path.unwrap_or_default())
}

fn listen_for_batches(args: &ServeArgs, sockets: &mut Sockets) -> Result<(), Failure> {
    let (path, is_asked) = match &args.batch {
        Some(BatchPlace::Nowhere) => return Ok(()),
        Some(BatchPlace::At(path)) => (path.clone(), true),
        None => match usual_path() {
            Ok(path) => (path, false),
            Err(error) => {
                report::warning(format_args!("no batch: {}", Chain(&error)));
                return Ok(());
            }
        },
    };
    match bind(&path) {
        Ok(socket) => {
            sockets.listeners.push(Listener::unix(Protocol::Batch, socket, &path));
            let inode = fs::symlink_metadata(&path).map_or(0, |made| made.ino());
            sockets.file = Some((path, inode));
            Ok(())
        }
        Err(error) if is_asked => Err(cannot_listen(Protocol::Batch, path.display(), &error)),
        Err(error) => {
            report::warning(format_args!(
                "no batch: {}: {error}; --batch names another path, or none",
                path.display()
            ));
            Ok(())
        }
    }
}

/// In the session's runtime folder, or in the user's data directory.
fn usual_path() -> Result<PathBuf, uidring::Error> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute());
    runtime.map_or_else(data_folder, Ok).map(|folder| folder.join("uidring.sock"))
}

/// Listens on a path that only this user can connect to. Replaces a socket there that nobody listens on.
fn bind(path: &Path) -> io::Result<UnixListener> {
    check_socket_path(path)?;
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_folder(parent)?;
    // Create it where nobody else can reach it, until its mode is set.
    let private = tempfile::Builder::new().prefix(".u").rand_bytes(4).tempdir_in(parent)?;
    let made = private.path().join("s");
    let socket = bind_for_owner(&made)?;
    fs::rename(&made, path)?;
    Ok(socket)
}

/// Refuses a path that is too long, or holds what a socket must not replace.
fn check_socket_path(path: &Path) -> io::Result<()> {
    // Clients pass the path to the system, which accepts no longer ones.
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        let text = format!("a socket's path has at most {MAX_SOCKET_PATH} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let text = "there is a file that is no socket";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(io::ErrorKind::AddrInUse.into()),
        _ => Ok(()),
    }
}

/// On Linux, `bind` gives the file the mode of the socket. Changing the mode by path could hit what the folder's owner
/// has put there meanwhile.
#[cfg(target_os = "linux")]
fn bind_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let socket = File::from(OwnedFd::from(socket));
    socket.set_permissions(fs::Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    // The longest queue that the system allows.
    socket.listen(i32::MAX)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

#[cfg(not(target_os = "linux"))]
fn bind_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}
