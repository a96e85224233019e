//! A private Galera cluster of three MariaDB servers from Debian's packages `galera-4`, `mariadb-server-core` and
//! `mariadb-client-core`. Each runs in its own network namespace, which needs root.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::query::query;
use super::{MariaDb, Settings};
use crate::cluster::Cluster;
use crate::network::Network;
use crate::server::LIMIT;
use crate::storm::Servers;

const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

const NODES: usize = 3;

/// The port of each node, on its own host.
const PORT: u16 = 3306;

/// The script that a returning node and its donor run to agree on where to begin.
const TRANSFER: &str = r#"#!/bin/sh
bypass= role= address= gtid=
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2; shift;;
        --address) address=$2; shift;;
        --gtid) gtid=$2; shift;;
        --bypass) bypass=yes;;
        --mysqld-args) break;;
    esac
    shift
done
meeting=FOLDER/transfer
case $role in
    joiner)
        rm -f "$meeting"
        echo "ready $address:4444/$meeting"
        until [ -s "$meeting" ]; do sleep 0.05; done
        cat "$meeting"
        ;;
    donor)
        if [ -z "$bypass" ]; then
            echo "the node needs a copy of all files, which this cluster has no script for" >&2
            exit 1
        fi
        meeting=/${address#*//}
        echo "$gtid" >"$meeting.part"
        mv "$meeting.part" "$meeting"
        echo "done $gtid"
        ;;
esac
"#;

/// Three servers that all take writes. They begin with the same files, so a returning node gets what it lacks from
/// another's cache. The script refuses a copy of all files: its scripts are in a package that starts its own server.
pub struct Galera {
    nodes: Cluster<Settings>,
    arguments: Vec<String>,
}

impl Galera {
    /// Starts the cluster, and waits until all nodes take writes.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with more arguments for each server.
    pub fn start_with(arguments: &[&str]) -> Self {
        assert!(
            Path::new(PROVIDER).is_file(),
            "no {PROVIDER}, which these tests need: apt-get install galera-4 mariadb-server-core \
             mariadb-client-core"
        );
        let network = Network::new(NODES as u8);
        let nodes = (0..NODES).map(|node| Arc::new(server(&network, node))).collect();
        let nodes = Cluster::new(nodes, Some(network));
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let cluster = Self { nodes, arguments };
        let first = cluster.node(0);
        first.make_files();
        // The first start writes the cluster's name and its position in the history to the files.
        cluster.launch(0, "", None);
        first.stop();
        for node in &cluster.nodes.servers()[1..] {
            let files = first.folder().join("data");
            let copied = Command::new("cp").arg("-r").arg(files).arg(node.folder()).status();
            assert!(copied.is_ok_and(|status| status.success()), "the files are copied");
            fs::remove_file(node.folder().join("data/galera.cache")).expect("it was copied");
        }
        cluster.launch(0, "", None);
        for node in 1..NODES {
            cluster.launch(node, &cluster.members(), None);
        }
        (0..NODES).for_each(|node| cluster.wait_for(node, NODES));
        cluster
    }

    pub fn node(&self, node: usize) -> &Arc<MariaDb> {
        self.nodes.server(node)
    }

    pub fn address(&self, node: usize) -> String {
        self.node(node).address().to_string()
    }

    /// Starts a node that was killed or stopped, and waits until it takes part.
    pub fn restart(&self, node: usize) {
        // A node that finds no majority gives up while the others are still looking for each other. Try again.
        for _ in 0..4 {
            let position = self.recovered(node);
            if self.try_launch(node, &self.members(), Some(&position)).is_ok() {
                return;
            }
        }
        panic!("node {node} does not come back\n{}", self.node(node).log());
    }

    /// Starts all nodes after all were killed, and waits until they take part. As an administrator should, it starts
    /// the node that is furthest in the history first.
    pub fn restart_all(&self) {
        let positions: Vec<_> = (0..NODES).map(|node| self.recovered(node)).collect();
        let number =
            |position: &str| position.rsplit(':').next().and_then(|n| n.parse::<i64>().ok());
        let first = (0..NODES).max_by_key(|node| number(&positions[*node])).expect("three");
        let state = self.node(first).folder().join("data/grastate.dat");
        let text = fs::read_to_string(&state).expect("it is there");
        let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
        fs::write(&state, text).expect("it writes");
        // With their last views, the nodes would wait for each other.
        for node in self.nodes.servers() {
            let view = node.folder().join("data/gvwstate.dat");
            assert!(!view.exists() || fs::remove_file(view).is_ok(), "it is removed");
        }
        self.launch(first, "", Some(&positions[first]));
        for node in (0..NODES).filter(|node| *node != first) {
            self.restart(node);
        }
    }

    pub fn network(&self) -> &Network {
        self.nodes.network()
    }

    /// Waits until a node sees `size` nodes, itself included, and is ready if they are a majority.
    pub fn wait_for(&self, node: usize, size: usize) {
        let deadline = Instant::now() + 4 * LIMIT;
        let is_ready = if 2 * size > NODES { "ON" } else { "OFF" };
        let wanted = [size.to_string(), is_ready.to_owned()];
        loop {
            let found =
                ["wsrep_cluster_size", "wsrep_ready"].map(|name| self.try_status(node, name));
            if found.iter().zip(&wanted).all(|(found, wanted)| found.as_ref() == Ok(wanted)) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "node {node} reports {found:?} and not {wanted:?}\n{}",
                self.node(node).log()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns a status variable of a node, such as `wsrep_cluster_size`.
    pub fn status(&self, node: usize, name: &str) -> String {
        self.try_status(node, name).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_status(&self, node: usize, name: &str) -> Result<String, String> {
        let server = self.node(node);
        let sql = format!("SHOW STATUS LIKE '{name}'");
        let rows: Vec<(String, String)> = query(server.administrator(), LIMIT, &sql)?;
        Ok(rows.into_iter().next().map(|(_, value)| value).unwrap_or_default())
    }

    fn members(&self) -> String {
        let all: Vec<_> = (0..NODES).map(|node| self.network().address(node).to_string()).collect();
        all.join(",")
    }

    fn launch(&self, node: usize, members: &str, position: Option<&str>) {
        self.try_launch(node, members, position).unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_launch(&self, node: usize, members: &str, position: Option<&str>) -> Result<(), String> {
        let mut arguments = self.arguments_of(node, members);
        arguments.extend(position.map(|position| format!("--wsrep-start-position={position}")));
        self.node(node).set_arguments(arguments);
        // It answers as soon as it takes part.
        self.node(node).start_by(Instant::now() + 4 * LIMIT)
    }

    /// Returns the position of a killed node's files in the cluster's history, asked for as Debian's systemd unit does.
    fn recovered(&self, node: usize) -> String {
        let server = self.node(node);
        server.set_arguments(self.arguments_of(node, &self.members()));
        let output = server.command().arg("--wsrep-recover").stdin(Stdio::null()).output();
        let output = output.expect("mariadbd starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let position = text.lines().find_map(|line| line.split_once("Recovered position:"));
        let (_, position) = position.unwrap_or_else(|| panic!("no position in\n{text}"));
        position.trim().to_owned()
    }

    /// The cluster drops a node after two seconds without an answer; the default is five.
    fn arguments_of(&self, node: usize, members: &str) -> Vec<String> {
        let address = self.network().address(node);
        let mut arguments = vec![
            "--bind-address=0.0.0.0".into(),
            "--wsrep-on=ON".into(),
            format!("--wsrep-provider={PROVIDER}"),
            "--wsrep-cluster-name=uidring".into(),
            format!("--wsrep-cluster-address=gcomm://{members}"),
            format!("--wsrep-node-address={address}"),
            // A node gets what it lacks from a cache; see `Galera`.
            "--wsrep-sst-method=cached".into(),
            "--binlog-format=ROW".into(),
            "--innodb-autoinc-lock-mode=2".into(),
            "--wsrep-provider-options=gcache.size=32M;evs.keepalive_period=PT0.25S;\
             evs.inactive_check_period=PT0.25S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;\
             evs.install_timeout=PT5S"
                .into(),
        ];
        arguments.extend_from_slice(&self.arguments);
        arguments
    }
}

/// Faults hit any node, once all nodes have found each other.
impl Servers for Galera {
    fn choose(&self) -> usize {
        (0..NODES).for_each(|node| self.wait_for(node, NODES));
        fastrand::usize(0..NODES)
    }
}

/// Creates a server with its script, not started.
fn server(network: &Arc<Network>, node: usize) -> MariaDb {
    let server = MariaDb::without_files().at(Some(network.host(node)), [PORT, 0]);
    let folder = server.folder().display().to_string();
    let script = server.folder().join("wsrep_sst_cached");
    fs::write(&script, TRANSFER.replace("FOLDER", &folder)).expect("it writes");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is ours");
    server
}
