//! One registry with programs that know nothing of each other: those of the first version, Java
//! Leafs, and newer ones. Each is recognised, and refused or safe.

use std::fs;
use std::time::Duration;

use uidring::{Layout, UidGenerator};
use uidring_zookeeper::ZooKeeperError;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::leaf::{Site, generator, now, refusal};

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// What the first version wrote of an instance, node for node.
struct First<'a> {
    site: &'a Site,
    instance: &'static str,
    forever: String,
}

impl<'a> First<'a> {
    /// An instance that is at work, and has reserved so far.
    fn start(site: &'a Site, instance: &'static str, until: i64) -> Self {
        let json = endpoint(now());
        let prefix = site.path(&format!("forever/{instance}-"));
        let forever = site.server.put_numbered(&prefix, &json);
        let first = First { site, instance, forever };
        first.renew(until);
        first
    }

    /// Both nodes, as a renewal left them.
    fn renew(&self, until: i64) {
        self.site.server.put(&self.forever, &endpoint(now()));
        let reserved = self.site.path(&format!("reserved/{}", self.instance));
        let json = format!(r#"{{"until":{until},"holder":"00000000000000aa"}}"#);
        self.site.server.put(&reserved, &json);
    }

    fn nodes(&self) -> [Option<String>; 2] {
        let reserved = self.site.path(&format!("reserved/{}", self.instance));
        [&self.forever, &reserved].map(|node| self.site.server.get(node))
    }
}

/// As Leaf and the first version write it.
fn endpoint(timestamp: i64) -> String {
    format!(r#"{{"ip":"10.0.0.7","port":"80","timestamp":{timestamp}}}"#)
}

/// How the first version read a reservation: whatever else is in it.
fn until_as_the_first_reads(json: &str) -> i64 {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert!(json["holder"].is_string());
    json["until"].as_i64().expect("a number")
}

/// It may be cut off, and issue anything with its number: nobody else gets that.
#[test]
fn the_first_version_keeps_its_numbers_for_itself() {
    let site = Site::shared();
    let first = First::start(&site, "web_0", now() + 9_000);
    let before = first.nodes();
    let new = generator(&site.registry("web_0"));
    assert_eq!(new.worker_id(), 1, "not its number");
    new.next_uid().expect("a uid");
    assert_eq!(first.nodes(), before, "nothing of it was touched");
    first.renew(now() + 9_000);
    // The other way round: it finds its own node, and not this one's.
    let names: Vec<String> = site
        .forever()
        .iter()
        .map(|node| node.split_once('-').expect("a number").0.to_owned())
        .collect();
    assert_eq!(names, ["web_0", "web_0@bounded"]);
    let uid = new.next_uid().expect("it goes on");
    drop(new);
    assert!(generator(&site.registry("web_0")).next_uid().expect("a uid") > uid);
}

/// One that was started by a name that ends like this one's nodes starts above what is in them, and
/// what it leaves is refused.
#[test]
fn the_first_version_starts_above_a_reservation_and_is_not_followed() {
    let site = Site::shared();
    let new = generator(&site.registry("web_0"));
    let uid = new.next_uid().expect("a uid");
    let reserved = site.path("reserved/web_0@bounded");
    let until = until_as_the_first_reads(&site.server.get(&reserved).expect("it is there"));
    assert!(until > LAYOUT.decode(uid).expect("decodes").timestamp.as_millis());
    drop(new);
    let forever = site.path(&format!("forever/{}", site.forever()[0]));
    let first = First { site: &site, instance: "web_0@bounded", forever };
    first.renew(now() + 9_000);
    let error = refusal(&site.registry("web_0"));
    assert!(error.contains("reserved/web_0@bounded was written by another program"), "{error}");
    assert!(error.contains("use another instance name"), "{error}");
    assert!(!site.is_live("web_0@bounded"));
}

/// Who goes on as Leaf does goes on with what the first version left, file and nodes.
#[test]
fn an_original_instance_follows_the_first_version() {
    let site = Site::shared();
    let until = now() + 1_200;
    let first = First::start(&site, "web_0", until);
    let lease = site.original("web_0").no_cache_file().lease(&LAYOUT).expect("acquired");
    assert_eq!(lease.worker_id(), 0);
    let after = LAYOUT.decode(lease.after().expect("something")).expect("decodes");
    assert_eq!(after.timestamp.as_millis(), until);
    drop(lease);
    let [_, reserved] = first.nodes();
    let reserved = reserved.expect("it is there");
    assert_eq!(until_as_the_first_reads(&reserved), until, "and it can be followed by that");
    assert!(reserved.contains(r#""version":2"#), "{reserved}");
}

#[test]
fn what_is_newer_is_refused() {
    let site = Site::shared();
    for (registry, end) in [(site.registry("web_0"), "@bounded"), (site.original("web_1"), "")] {
        let generator = generator(&registry);
        let instance = if end.is_empty() { "web_1" } else { "web_0@bounded" };
        drop(generator);
        let node = site.path(&format!("reserved/{instance}"));
        let known = site.server.get(&node).expect("it is there");
        let newer = known.replace(r#""version":2"#, r#""version":3"#);
        assert_ne!(known, newer);
        site.server.put(&node, &newer);
        let error = refusal(&registry);
        assert!(error.contains("is of version 3, and this program knows 2"), "{error}");
        assert_eq!(site.server.get(&node), Some(newer), "it is left as it is");
        assert!(!site.is_live(instance));
    }
    // A file of the first version, where one of its own is expected.
    let file = site.folder.path().join("first.json");
    fs::write(&file, first_file("web_2")).expect("writes");
    let error = refusal(&site.registry("web_2").cache_file(&file));
    assert!(error.contains("belongs to instance web_2 of"), "{error}");
}

/// Byte for byte what the first version left, with a checksum over what it knew.
fn first_file(instance: &str) -> String {
    let text = format!(
        "orders\n{instance}\n10.0.0.7\n80\n1f\n7\n1780000000000\n1780000003000\n1780000000000"
    );
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!(
        "{{\"name\":\"orders\",\"instance\":\"{instance}\",\"worker_id\":7,\"ip\":\"10.0.0.7\",\
         \"port\":\"80\",\"timestamp\":1780000000000,\"until\":1780000003000,\"holder\":\"1f\",\
         \"word\":1780000000000,\"checksum\":\"{sum:016x}\"}}\n"
    )
}

/// A Java Leaf looks for `ip:port` before the first `-` of a node's name, and works with the number
/// behind it; where the registry was not there yet, with 0, whatever its node is called.
#[test]
fn java_leafs_and_bounded_instances_have_different_numbers() {
    let site = Site::shared();
    let name = "10.0.0.7:80";
    // The registry is made by this one, and a Java Leaf that looked just before takes 0.
    let new = generator(&site.registry(name));
    assert_eq!(new.worker_id(), 1, "0 is a Java Leaf's that boots first");
    let uid = new.next_uid().expect("a uid");
    let java = site.server.put_numbered(&site.path(&format!("forever/{name}-")), &endpoint(now()));
    assert!(java.ends_with("-0000000002"), "{java}");
    let listeners: Vec<(String, u32)> = site
        .forever()
        .iter()
        .map(|node| {
            let parts: Vec<&str> = node.split('-').collect();
            (parts[0].to_owned(), parts[1].parse().expect("Integer.parseInt"))
        })
        .collect();
    let expected = [(name.to_owned(), 2), (format!("{name}@bounded"), 1)];
    assert_eq!(listeners, expected, "all of them are read, and its own is found");
    // What it uploads is no concern of the other's.
    site.server.put(&java, &endpoint(now() + 60_000));
    let again = generator_again(&site, name, new);
    assert!(again > uid);
    // A node of that name that a Java Leaf did write to: nobody knows what it has issued.
    let own = site.forever().into_iter().find(|node| node.contains("@bounded")).expect("one");
    site.server.put(&site.path(&format!("forever/{own}")), &endpoint(now()));
    let error = refusal(&site.registry(name));
    assert!(error.contains("was written by another program"), "{error}");
    // By risking repeats the number is the Java Leaf's, and is refused as it would refuse it.
    let error = site.original(name).no_cache_file().lease(&LAYOUT).expect_err("its clock is ahead");
    assert!(matches!(error.store(), Some(ZooKeeperError::ClockBehindStored { .. })), "{error:?}");
    site.server.put(&java, &endpoint(now() - 5_000));
    assert_eq!(generator(&site.original(name).no_cache_file()).worker_id(), 2);
}

fn generator_again(site: &Site, name: &str, before: impl UidGenerator) -> uidring::Uid {
    drop(before);
    generator(&site.registry(name)).next_uid().expect("a uid")
}

/// A live process of the first version has the name of its nodes, and no other.
#[test]
fn both_versions_run_at_once_with_one_name() {
    let site = Site::shared();
    let first = First::start(&site, "web_0", now());
    let hosts = site.server.hosts();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    // Its session, with the node that lives with it.
    let session = runtime.block_on(async {
        let client = Client::connector()
            .with_session_timeout(Duration::from_secs(4))
            .connect(&hosts)
            .await
            .expect("a session");
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.mkdir(&site.path("temporary"), &options).await.expect("a folder");
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let node = site.path("temporary/web_0");
        client.create(&node, endpoint(now()).as_bytes(), &options).await.expect("a node");
        client
    });
    let before = first.nodes();
    let new = generator(&site.registry("web_0"));
    assert_eq!(new.worker_id(), 1);
    new.next_uid().expect("a uid");
    // The one that would have its number is refused.
    let error = site.original("web_0").no_cache_file().lease(&LAYOUT).expect_err("it is in use");
    assert!(matches!(error.store(), Some(ZooKeeperError::InstanceInUse { .. })), "{error:?}");
    assert_eq!(first.nodes(), before);
    let listed = site.servers_at(&hosts).leaf_nodes(&site.name).expect("listed");
    let rows: Vec<_> =
        listed.iter().map(|n| (n.number, &*n.instance, n.is_live, n.is_bounded)).collect();
    assert_eq!(rows, [(0, "web_0", true, false), (1, "web_0", true, true)]);
    drop(session);
}
