//! Handshakes of our own, to learn why the client's fail. The client retries without telling.

use std::future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error as TlsError, Stream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uidring::StoreErrorKind;
use uidring_store::url::Host;
use uidring_store::{tls_advice, tls_error};

use super::error::ZooKeeperError;
use super::registry::Registry;

/// Completes once every server has refused a handshake, because waiting then cannot help. First waits a quarter of the
/// limit, in which most sessions are made. Sets `refusal` at a refusal.
pub async fn all_refused(
    registry: &Registry,
    config: Arc<ClientConfig>,
    limit: Duration,
    refusal: &mut Option<ZooKeeperError>,
) {
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
        let kind = match answers == servers.len() {
            true => StoreErrorKind::Denied,
            false => StoreErrorKind::Unreachable,
        };
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
    let mut tcp = addresses.find_map(|address| TcpStream::connect_timeout(&address, limit).ok())?;
    tcp.set_read_timeout(Some(limit)).ok()?;
    tcp.set_write_timeout(Some(limit)).ok()?;
    let name = ServerName::try_from(server.name.clone()).ok()?;
    let mut connection = ClientConnection::new(config, name).ok()?;
    let error = shake_hands(&mut connection, &mut tcp).err()?;
    let is_closed = matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    );
    (is_closed || tls_error(&error).is_some()).then_some(error)
}

fn shake_hands(connection: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<()> {
    while connection.is_handshaking() {
        connection.complete_io(tcp)?;
    }
    // With TLS 1.3, a server refuses the client's certificate after the handshake. Otherwise it answers any command,
    // even an unknown one. So the read shows a refusal.
    let mut stream = Stream::new(connection, tcp);
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
