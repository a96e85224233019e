//! Networks of hosts: a network namespace for each host, and a bridge to the others and to this host.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Removed on drop. The next test removes what a killed one left behind.
pub struct Network {
    number: u8,
    hosts: u8,
    /// The second and third byte of its addresses, and the lock that keeps them from other processes.
    addresses: ([u8; 2], File),
}

/// The beginning of the bridges' names; the process id follows.
const PREFIX: &str = "uidr";

impl Network {
    /// Creates a network of this many hosts, linked to each other and to this host.
    pub fn new(hosts: u8) -> Arc<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        assert!(
            Path::new("/sbin/ip").exists() || Path::new("/usr/sbin/ip").exists(),
            "no ip, which these tests need: apt-get install iproute2"
        );
        remove_leftovers();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let network = Self { number, hosts, addresses: addresses() };
        let bridge = network.bridge();
        run(&format!("link add {bridge} type bridge"));
        run(&format!("addr add {}/24 dev {bridge}", network.ip(254)));
        run(&format!("link set {bridge} up"));
        for host in 0..hosts {
            let (space, link) = (network.space(host), network.link(host));
            run(&format!("netns add {space}"));
            run(&format!("link add {link} type veth peer name eth0 netns {space}"));
            run(&format!("link set {link} master {bridge} up"));
            run(&format!("-n {space} link set lo up"));
            run(&format!("-n {space} addr add {}/24 dev eth0", network.ip(host + 1)));
            run(&format!("-n {space} link set eth0 up"));
        }
        Arc::new(network)
    }

    pub fn address(&self, host: usize) -> Ipv4Addr {
        self.ip(u8::try_from(host).expect("a host") + 1)
    }

    pub fn host(self: &Arc<Self>, number: usize) -> Host {
        Host { network: Arc::clone(self), number }
    }

    /// Takes down a host's link, which cuts it off from all others and from this host.
    pub fn unplug(&self, host: usize) {
        run(&format!("link set {} down", self.link(u8::try_from(host).expect("a host"))));
    }

    /// Reverts [`unplug`](Self::unplug).
    pub fn plug_in(&self, host: usize) {
        run(&format!("link set {} up", self.link(u8::try_from(host).expect("a host"))));
    }

    /// Cuts a host off from the other hosts only, by blackhole routes.
    pub fn isolate(&self, host: usize) {
        self.routes(host, "replace");
    }

    /// Reverts [`isolate`](Self::isolate).
    pub fn rejoin(&self, host: usize) {
        self.routes(host, "del");
    }

    /// Stops one host from sending to another. The other can still send to it.
    #[cfg(feature = "zookeeper")]
    pub fn mute(&self, from: usize, to: usize) {
        self.route(from, to, "replace");
    }

    #[cfg(feature = "zookeeper")]
    pub fn unmute(&self, from: usize, to: usize) {
        self.route(from, to, "del");
    }

    /// Changes the routes from a host to all other hosts. Without them it cannot answer them either.
    fn routes(&self, host: usize, what: &str) {
        let others = (0..usize::from(self.hosts)).filter(|other| *other != host);
        others.for_each(|other| self.route(host, other, what));
    }

    fn route(&self, from: usize, to: usize, what: &str) {
        let space = self.space(u8::try_from(from).expect("a host"));
        run(&format!("-n {space} route {what} blackhole {}/32", self.address(to)));
    }

    fn ip(&self, last: u8) -> Ipv4Addr {
        let ([second, third], _) = self.addresses;
        Ipv4Addr::new(10, second, third, last)
    }

    fn bridge(&self) -> String {
        format!("{PREFIX}{}b{}", process::id(), self.number)
    }

    fn link(&self, host: u8) -> String {
        format!("{PREFIX}{}v{}{host}", process::id(), self.number)
    }

    fn space(&self, host: u8) -> String {
        format!("{PREFIX}{}n{}{host}", process::id(), self.number)
    }
}

#[derive(Clone)]
pub struct Host {
    network: Arc<Network>,
    number: usize,
}

impl Host {
    pub fn address(&self) -> Ipv4Addr {
        self.network.address(self.number)
    }

    /// Returns the command that runs `inside` on this host.
    pub(crate) fn runs(&self, inside: &Command) -> Command {
        let mut command = Command::new("ip");
        let space = self.network.space(u8::try_from(self.number).expect("a host"));
        command.args(["netns", "exec", &space]).arg(inside.get_program()).args(inside.get_args());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            attempt(&format!("link del {}", self.link(host)));
            attempt(&format!("netns del {}", self.space(host)));
        }
        attempt(&format!("link del {}", self.bridge()));
        let ([second, third], _) = self.addresses;
        let _ = fs::remove_file(format!("/tmp/{PREFIX}-10.{second}.{third}"));
    }
}

/// Chooses addresses that no other process of this machine uses.
fn addresses() -> ([u8; 2], File) {
    loop {
        let (second, third) = (fastrand::u8(128..192), fastrand::u8(..));
        let lock = File::create(format!("/tmp/{PREFIX}-10.{second}.{third}")).expect("a file");
        if lock.try_lock().is_ok() {
            return ([second, third], lock);
        }
    }
}

fn remove_leftovers() {
    let is_left = |name: &str| {
        let pid: String =
            name.trim_start_matches(PREFIX).chars().take_while(char::is_ascii_digit).collect();
        name.starts_with(PREFIX) && !pid.is_empty() && !Path::new("/proc").join(pid).exists()
    };
    let spaces = attempt("netns list");
    for name in spaces.lines().filter_map(|line| line.split(' ').next()).filter(|n| is_left(n)) {
        attempt(&format!("netns del {name}"));
    }
    let links = attempt("-brief link");
    let names = links.lines().filter_map(|line| line.split([' ', '@']).next());
    for name in names.filter(|name| is_left(name)) {
        attempt(&format!("link del {name}"));
    }
}

fn run(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip starts");
    assert!(
        output.status.success(),
        "these tests need root, for network namespaces: ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns what `ip` prints, or an empty text if it does not start.
fn attempt(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
}
