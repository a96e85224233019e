//! Connections with TLS, and handshakes of our own, to learn why the client's fail. The client retries silently.

use std::future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error as TlsError, Stream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uidring::StoreErrorKind::{Denied, Unreachable};
use uidring_store::url::Host;
use uidring_store::{tls_advice, tls_error};
use zookeeper_client::{Client, Error};

use super::error::ZooKeeperError;
use super::registry::Registry;
use super::servers::TLS;
use super::thread::unless;

pub async fn connect(registry: &Registry) -> Result<Client, ZooKeeperError> {
    let servers = &registry.servers;
    let limit = servers.connect_deadline;
    let prepared = servers.tls.prepare();
    let (options, config) =
        prepared.map_err(|cause| registry.caused(Denied, "TLS cannot be used", cause))?;
    // The prefix occurs only before servers, because no path has an empty part.
    let hosts = servers.text.replace(TLS, "");
    let connecting = servers.connector().with_tls(options).secure_connect(&hosts);
    let mut refusal = None;
    let refused = all_refused(registry, config, &mut refusal);
    match unless(refused, timeout(limit, connecting)).await {
        Some(Ok(Err(error))) if error != Error::Timeout => Err(registry.failed(error)),
        Some(Ok(Ok(client))) => Ok(client),
        _ => Err(refusal.unwrap_or_else(|| registry.no_session("are these their ports for TLS"))),
    }
}

/// Completes once every server has refused a handshake, because waiting then cannot help. First waits a quarter of the
/// limit, in which most sessions are made. Sets `refusal` at a refusal.
async fn all_refused(
    registry: &Registry,
    config: Arc<ClientConfig>,
    refusal: &mut Option<ZooKeeperError>,
) {
    let limit = registry.servers.connect_limit();
    sleep(limit / 4).await;
    let (servers, mut outcomes) = (&registry.servers.hosts, JoinSet::new());
    for server in servers {
        let (server, config) = (server.clone(), Arc::clone(&config));
        outcomes.spawn_blocking(move || {
            let error = failure(&server, config, limit / 2)?;
            Some((server, error))
        });
    }
    let mut answers = 0;
    while let Some(outcome) = outcomes.join_next().await {
        let Ok(Some((server, error))) = outcome else { continue };
        let is_final = tls_error(&error).is_some();
        answers += usize::from(is_final);
        let kind = if answers == servers.len() { Denied } else { Unreachable };
        // A TLS error says more than a closed connection.
        if is_final || refusal.is_none() {
            let (address, advice) = (server.with_port(2_181), advice(&error));
            let problem = format!("TLS with {address} failed; {advice}");
            *refusal = Some(registry.caused(kind, problem, error));
        }
    }
    if answers < servers.len() {
        future::pending::<()>().await;
    }
}

/// Returns why TLS with a server fails; `None` if it works or the server does not answer.
fn failure(server: &Host, config: Arc<ClientConfig>, limit: Duration) -> Option<io::Error> {
    let mut addresses = server.with_port(2_181).to_socket_addrs().ok()?;
    let tcp = addresses.find_map(|address| TcpStream::connect_timeout(&address, limit).ok())?;
    tcp.set_read_timeout(Some(limit)).ok()?;
    tcp.set_write_timeout(Some(limit)).ok()?;
    let name = ServerName::try_from(server.name.clone()).ok()?;
    let error = shake_hands(ClientConnection::new(config, name).ok()?, tcp).err()?;
    let is_closed = matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    );
    (is_closed || tls_error(&error).is_some()).then_some(error)
}

fn shake_hands(mut connection: ClientConnection, mut tcp: TcpStream) -> io::Result<()> {
    let mut stream = Stream::new(&mut connection, &mut tcp);
    // This completes the handshake.
    stream.flush()?;
    // With TLS 1.3, a server refuses the client's certificate after the handshake. Otherwise it answers any command,
    // even an unknown one. So the read shows a refusal.
    let _ = stream.write_all(b"ruok").and_then(|()| stream.flush());
    match stream.read(&mut [0; 4])? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn advice(error: &io::Error) -> &'static str {
    let Some(error) = tls_error(error) else {
        return "is this the server's port for TLS (secureClientPort), has it a quorum, and does it want a \
                client's certificate?";
    };
    if matches!(error, TlsError::InvalidMessage(_)) {
        return "is this the server's port for TLS (secureClientPort)?";
    }
    tls_advice(error).unwrap_or(match error {
        TlsError::InvalidCertificate(_) => "the server's certificate cannot be used",
        _ => "the server should offer TLS 1.2 or 1.3, and cipher suites that are considered safe",
    })
}
