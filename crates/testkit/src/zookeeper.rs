//! Private ZooKeeper servers from Debian's package `zookeeper`: one, or an ensemble of three.

mod ensemble;

use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

pub use self::ensemble::Ensemble;
use crate::certificates::{Authority, Certificate};
use crate::process::Process;
use crate::server::{self, Kind, LIMIT, Server, folder_for};

/// The server and its logger. The server's manifest names the rest.
const JARS: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

/// Needed for TLS but missing from the manifest. The package depends on libnetty-java, which has them.
const TLS_JARS: [&str; 2] =
    ["/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"];

/// How often the servers look for expired sessions.
const TICK: Duration = Duration::from_millis(250);

/// The longest session that the servers allow. If the JVM gets no processor for a while, the server then expires
/// sessions that ran out meanwhile, even of live clients. Tests that must survive this need a long session.
const LONGEST_SESSION: Duration = Duration::from_secs(120);

pub type ZooKeeper = Server<Settings>;

pub struct Settings {
    tick: Duration,
    longest_session: Duration,
    /// The settings of a second port with TLS, in lines.
    tls: Option<String>,
}

impl ZooKeeper {
    /// Starts a server that allows sessions from half a second to two minutes.
    pub fn start() -> Arc<Self> {
        Self::launch_server(TICK, LONGEST_SESSION, None)
    }

    /// Starts a server with a second port, for TLS, that shows this certificate. If `asks`, clients must show one of
    /// the authority. `settings` are further lines.
    pub fn start_with_tls(
        authority: &Authority,
        shown: &Certificate,
        asks: bool,
        settings: &str,
    ) -> Arc<Self> {
        // ZooKeeper wants both in one file.
        let pem = [&shown.key, &shown.certificate].map(|path| fs::read(path).expect("a file"));
        let store = shown.certificate.with_extension("both.pem");
        fs::write(&store, pem.concat()).expect("it writes");
        let settings = format!(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\n\
             ssl.trustStore.type=PEM\nssl.clientAuth={}\n{settings}\n",
            store.display(),
            authority.certificate().display(),
            if asks { "need" } else { "none" },
        );
        Self::launch_server(TICK, LONGEST_SESSION, Some(settings))
    }

    /// Starts a server that allows sessions of 2 to 20 ticks, the default.
    pub fn with_tick(tick: Duration) -> Arc<Self> {
        Self::launch_server(tick, 20 * tick, None)
    }

    fn launch_server(tick: Duration, longest_session: Duration, tls: Option<String>) -> Arc<Self> {
        Self::down(Settings { tick, longest_session, tls }, folder_for("")).start_new()
    }

    /// Returns the server that the tests of this binary share. It ends with the process.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<ZooKeeper>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(Self::start))
    }

    /// Returns `127.0.0.1:port`.
    pub fn hosts(&self) -> String {
        self.address().to_string()
    }

    pub fn tls_port(&self) -> u16 {
        self.second_address().port()
    }

    /// Returns a registry name that no other test has.
    pub fn name(&self) -> String {
        format!("name_{}", self.next_number())
    }

    /// Copies the files of a server that is down.
    pub fn copy_to(&self, folder: &Path) {
        copy(&self.folder().join("data"), folder);
    }

    /// Replaces the files of a server that is down with a copy.
    pub fn restore(&self, folder: &Path) {
        let data = self.folder().join("data");
        fs::remove_dir_all(&data).expect("removed");
        copy(folder, &data);
    }

    /// Writes to a node. Creates it and its parents if missing.
    pub fn put(&self, path: &str, data: &str) -> Stat {
        self.run(async |client| {
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            if let Some((parent, _)) =
                path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
            {
                client.mkdir(parent, &options).await?;
            }
            match client.create(path, data.as_bytes(), &options).await {
                Err(Error::NodeExists) => client.set_data(path, data.as_bytes(), None).await,
                made => made.map(|(stat, _)| stat),
            }
        })
    }

    /// Creates a node with a number after its name, and its parents. Returns its full name.
    pub fn put_numbered(&self, prefix: &str, data: &str) -> String {
        self.run(async |client| {
            let (parent, _) = prefix.rsplit_once('/').expect("a path");
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.mkdir(parent, &options).await?;
            let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
            let (_, number) = client.create(prefix, data.as_bytes(), &options).await?;
            Ok(format!("{prefix}{number}"))
        })
    }

    /// Creates many nodes at once, with numbers after their names.
    pub fn put_many(&self, parent: &str, count: u32) {
        self.run(async |client| {
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.mkdir(parent, &options).await?;
            let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
            let data = r#"{"ip":"10.0.0.1","port":"1","timestamp":1596957371092}"#;
            let prefixes: Vec<_> =
                (0..count).map(|port| format!("{parent}/10.0.0.1:{port}-")).collect();
            // A request is sent before its answer is awaited.
            let requests: Vec<_> = prefixes
                .iter()
                .map(|prefix| client.create(prefix, data.as_bytes(), &options))
                .collect();
            for request in requests {
                request.await?;
            }
            Ok(())
        });
    }

    /// Returns a node's data, or `None` if it is missing.
    pub fn get(&self, path: &str) -> Option<String> {
        self.stat(path).map(|(data, _)| data)
    }

    /// Returns a node's data and metadata.
    pub fn stat(&self, path: &str) -> Option<(String, Stat)> {
        self.run(async |client| match client.get_data(path).await {
            Err(Error::NoNode) => Ok(None),
            read => read.map(|(data, stat)| Some((String::from_utf8(data).expect("a text"), stat))),
        })
    }

    /// Returns the names of a node's children, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        let mut names = self.run(async |client| match client.list_children(path).await {
            Err(Error::NoNode) => Ok(Vec::new()),
            names => names,
        });
        names.sort();
        names
    }

    pub fn delete(&self, path: &str) {
        self.run(async |client| client.delete(path, None).await);
    }

    /// Does some work in its own session.
    pub fn run<T, F: Future<Output = Result<T, Error>>>(
        &self,
        work: impl FnOnce(Client) -> F,
    ) -> T {
        run_at(&self.hosts(), work).unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }
}

impl Kind for Settings {
    fn command(server: &ZooKeeper) -> Command {
        let Self { tick, longest_session, tls } = server.kind();
        let mut settings = format!(
            "dataDir={}/data\nclientPortAddress=127.0.0.1\nclientPort={}\ntickTime={}\n\
             maxSessionTimeout={}\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=ruok\n",
            server.folder().display(),
            server.port(),
            tick.as_millis(),
            longest_session.as_millis()
        );
        if let Some(tls) = tls {
            let port = server.second_address().port();
            settings +=
                &format!("secureClientPortAddress=127.0.0.1\nsecureClientPort={port}\n{tls}");
        }
        let file = server.folder().join("zoo.cfg");
        fs::write(&file, settings).expect("it writes");
        let mut command = Command::new(find("java"));
        command
            .args(java_arguments(if tls.is_some() { &TLS_JARS } else { &[] }))
            .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
            .arg(file);
        command
    }

    fn is_ready(server: &ZooKeeper, _: &Process, _: Duration) -> Result<(), String> {
        match ask(server.address(), "ruok") {
            Ok(answer) if answer == "imok" => Ok(()),
            answer => Err(format!("it does not say that it is well: {answer:?}")),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-rT").args([from, to]).status();
    assert!(copied.expect("cp runs").success());
}

fn run_at<T, F: Future<Output = Result<T, Error>>>(
    hosts: &str,
    work: impl FnOnce(Client) -> F,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let session = async {
        // A busy server may be slow.
        let client = Client::connector().with_session_timeout(LIMIT).connect(hosts).await?;
        let mut state = client.state_watcher();
        let done = work(client).await;
        // The work has dropped the client; wait until the session is closed.
        while !state.changed().await.is_terminated() {}
        done
    };
    let done =
        runtime.expect("a runtime").block_on(async { tokio::time::timeout(LIMIT, session).await });
    match done {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".into()),
    }
}

/// Returns the answer to a four-letter command.
fn ask(server: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(command.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the JVM's arguments before the class name, with these jars added.
fn java_arguments(further: &[&str]) -> [String; 5] {
    let jars = [&JARS, further].concat();
    for jar in &jars {
        assert!(
            Path::new(jar).is_file(),
            "no {jar}, which these tests need: apt-get install zookeeper"
        );
    }
    let [heap, collector, compiler, path] =
        ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"].map(str::to_owned);
    [heap, collector, compiler, path, jars.join(":")]
}

fn find(program: &str) -> PathBuf {
    server::find(program, ["/usr/bin".into()], "zookeeper")
}
