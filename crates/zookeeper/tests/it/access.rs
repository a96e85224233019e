//! Users of ZooKeeper: each has the nodes of its names to itself, and the root is everybody's.

use std::error::Error as _;
use std::fs;
use std::time::Duration;

use uidring::{Error, Layout};
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperError, ZooKeeperServers};
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::leaf::{Site, chain, generator};

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// With sessions that outlive the pauses of a server on a busy machine.
fn site() -> Site {
    Site::with_session(ZooKeeper::start(), Duration::from_secs(12))
}

/// The servers for a user.
fn servers(site: &Site, user: &str, password: &str) -> ZooKeeperServers {
    let file = site.folder.path().join("auth");
    fs::write(&file, format!("{user}:{password}\n")).expect("writes");
    site.servers_at(&site.server.hosts()).auth_file(file).expect("a user")
}

/// The registry of a name for a user.
fn registry(site: &Site, name: &str, user: &str, password: &str) -> LeafZooKeeper {
    let instance = Instance::new("a:1").expect("a name");
    LeafZooKeeper::new(servers(site, user, password), name, instance)
        .expect("a name")
        .no_cache_file()
}

/// What is not allowed, and on which node.
fn refused(error: &Error) -> (&'static str, String) {
    match error.store() {
        Some(ZooKeeperError::NotAllowed { node, right, .. }) => (*right, node.clone()),
        _ => panic!("{}", chain(error)),
    }
}

fn acls(site: &Site, user: &[u8], path: &str) -> Vec<(String, Permission)> {
    let (acls, _) = site.server.run(async |client| {
        client.auth("digest", user).await?;
        client.get_acl(path).await
    });
    let of = |acl: &Acl| (format!("{}:{}", acl.scheme(), acl.id()), acl.permission());
    acls.iter().map(of).collect()
}

#[test]
fn users_and_java_leafs_share_a_root() {
    let site = site();
    // The first start makes the root.
    let alice = generator(&registry(&site, "orders", "alice", "s3cret"));
    let bob = generator(&registry(&site, "users", "bob", "pa55"));
    assert_eq!((alice.worker_id(), bob.worker_id()), (1, 1));

    let root = acls(&site, b"alice:s3cret", "/snowflake");
    assert_eq!(root.len(), 2, "{root:?}");
    assert_eq!(root[0], ("world:anyone".into(), Permission::CREATE | Permission::READ));
    assert!(root[1].0.starts_with("digest:alice:") && root[1].1 == Permission::ALL, "{root:?}");
    for node in ["", "/forever", "/temporary", "/reserved", "/reserved/a:1@bounded"] {
        let own = acls(&site, b"bob:pa55", &format!("/snowflake/users{node}"));
        assert_eq!(own.len(), 1, "{node}: {own:?}");
        assert!(own[0].0.starts_with("digest:bob:") && own[0].1 == Permission::ALL, "{own:?}");
    }

    // A Java Leaf makes its own nodes, open to all, and this program beside it.
    let json = r#"{"ip":"10.0.0.1","port":"1","timestamp":1596957371092}"#;
    let node = site.server.put_numbered("/snowflake/java/forever/10.0.0.1:1-", json);
    site.server.put(&node, json);
    let instance = Instance::new("10.0.0.2:1").expect("a name");
    let servers = site.servers_at(&site.server.hosts());
    let open = LeafZooKeeper::new(servers.clone(), "java", instance).expect("a name");
    assert_eq!(generator(&open.no_cache_file()).worker_id(), 1);
    assert_eq!(servers.leaf_nodes("java").expect("listed").len(), 2);

    // Nobody looks into, or removes, what is another's.
    let read = ("read (r)", "/snowflake/orders/forever".to_owned());
    assert_eq!(refused(&servers.leaf_nodes("orders").expect_err("alice's")), read);
    let removed = site.server.run(async |client| Ok(client.delete("/snowflake/java", None).await));
    assert_eq!(removed, Err(zookeeper_client::Error::NoAuth));
}

#[test]
fn a_user_that_lacks_a_right_is_told_which_one_and_where() {
    let site = site();
    let alice = || registry(&site, "orders", "alice", "s3cret");
    drop(generator(&alice()));

    // A wrong password is another user.
    let temporary = ("create (c)", "/snowflake/orders/temporary".to_owned());
    let wrong = registry(&site, "orders", "alice", "wr0ng");
    let error = wrong.lease(&LAYOUT).expect_err("wrong");
    assert_eq!(refused(&error), temporary);
    let text = chain(&error);
    assert!(
        text.contains("lacks the right to create (c) on node /snowflake/orders/temporary"),
        "{text}"
    );
    assert!(text.contains("user and password"), "{text}");
    let cause = error.source().expect("the client's error");
    assert_eq!(cause.downcast_ref(), Some(&zookeeper_client::Error::NoAuth));
    assert_eq!(text.matches(&cause.to_string()).count(), 1, "said once: {text}");
    let text = format!("{error} {error:?} {wrong:?}");
    assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    let instance = Instance::new("a:1").expect("a name");
    let nobody = |name: &str| {
        let servers = site.servers_at(&site.server.hosts());
        let registry = LeafZooKeeper::new(servers, name, instance.clone()).expect("a name");
        registry.no_cache_file().lease(&LAYOUT).expect_err("nobody")
    };
    let error = nobody("orders");
    assert_eq!(refused(&error), temporary);

    // The servers answer, and refuse: the file must not help.
    let file = site.folder.path().join("original.json");
    let original = |password| {
        registry(&site, "original", "alice", password).cache_file(&file).risk_repeats_in_outages()
    };
    drop(generator(&original("s3cret")));
    let error = original("wr0ng").lease(&LAYOUT).expect_err("wrong");
    assert_eq!(refused(&error), ("create (c)", "/snowflake/original/temporary".into()));

    // A right that the owner has taken away from itself.
    let reserved = "/snowflake/orders/reserved/a:1@bounded";
    let allow = |permission| {
        site.server.run(async |client| {
            client.auth("digest", b"alice:s3cret").await?;
            let acls = [Acl::new(permission, AuthId::authed())];
            client.set_acl(reserved, &acls, None).await
        });
    };
    allow(Permission::READ | Permission::ADMIN);
    let error = alice().lease(&LAYOUT).expect_err("read only");
    assert_eq!(refused(&error), ("write (w)", reserved.into()));
    allow(Permission::WRITE | Permission::ADMIN);
    let error = alice().lease(&LAYOUT).expect_err("write only");
    assert_eq!(refused(&error), ("read (r)", reserved.into()));
    allow(Permission::ALL);
    assert_eq!(generator(&alice()).worker_id(), 1);

    // A root that is one user's alone, as earlier versions made it.
    site.server.run(async |client| {
        client.auth("digest", b"alice:s3cret").await?;
        client.set_acl("/snowflake", &Acls::creator_all(), None).await
    });
    assert_eq!(refused(&nobody("users")), ("create (c)", "/snowflake".into()));
    assert_eq!(generator(&alice()).worker_id(), 1);
}
