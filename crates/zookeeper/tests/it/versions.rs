//! One registry with programs that know nothing of each other: Java Leafs, and other versions of this one.

use uidring::{Layout, UidGenerator};
use uidring_zookeeper::ZooKeeperError;

use crate::leaf::{Site, generator, now, refusal};

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// As Leaf writes it.
fn endpoint(timestamp: i64) -> String {
    format!(r#"{{"ip":"10.0.0.7","port":"80","timestamp":{timestamp}}}"#)
}

#[test]
fn another_version_is_refused() {
    let site = Site::shared();
    for (registry, end) in [(site.registry("web_0"), "@bounded"), (site.original("web_1"), "")] {
        let generator = generator(&registry);
        let instance = if end.is_empty() { "web_1" } else { "web_0@bounded" };
        drop(generator);
        let node = site.path(&format!("reserved/{instance}"));
        let known = site.server.get(&node).expect("it is there");
        let other = known.replace(r#""version":1"#, r#""version":2"#);
        assert_ne!(known, other);
        site.server.put(&node, &other);
        let error = refusal(&registry);
        assert!(error.contains("has version 2, and this uidring uses version 1"), "{error}");
        assert_eq!(site.server.get(&node), Some(other), "it is left as it is");
        assert!(!site.is_live(instance));
    }
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
