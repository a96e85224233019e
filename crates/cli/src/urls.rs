//! `uidring help urls`: explains URLs.

use uidring_any::table::kinds;

/// Returns the page, with the engines of this build.
pub fn page() -> String {
    let forms = kinds().into_iter().map(|kind| kind.form).chain(["worker:N"]);
    let forms: Vec<_> = forms.map(|form| format!("  {form}")).collect();
    format!(
        "\
A URL says where worker ids and segments come from, and how the generator behaves:

{}

`sqlite:` alone is the file in your data directory. `worker:N` is a worker id of your choice, without a
store; `worker:D/W` has Snowflake's datacenter and worker. Instances of a ZooKeeper registry take their name from
the environment variable UIDRING_INSTANCE.

Where it is given: -u URL, or --url-file PATH, whose first line it is; else the environment variable
UIDRING_URL; in the file of `uidring serve --config`, the key `url`. A relative path is only allowed with -u.

Options follow after a `?`, separated by `&`. Shells read both characters: quote the URL.

  generator=cached|clock|snowflake|leaf-snowflake|segment, tag=TAG
  layout=NAME|TIME/WORKER/SEQUENCE[/TICK/EPOCH], namespace=NAME
  max-borrow=TIME, max-lag=TIME, max-start-wait=TIME, on-clock-back=stay-ahead|new-worker-id
  boost-power=N, order=ordered|per-thread, take=wait|fail|TIME
  worker=disposable|lease|ordinal, lease=TIME, lease-wait=TIME, ordinal-offset=N
  tls=off|verify|unverified, ca=PATH, cert=PATH, key=PATH, deadline=TIME, connect-timeout=TIME
  durability=require, cluster=synchronous, max-clock-difference=TIME; mode=rwc creates a SQLite file

Without worker=, a layout with fewer than 100,000 worker ids leases one and gives it back; with more, each start uses
one up. docs/options.md explains every option. An option that does not apply is an error.

In user and password, percent-encode / ? # @ : and %, as in p%40ss for p@ss.

Examples:
  uidring generate -u 'sqlite:ids.db?mode=rwc&layout=snowflake'
  uidring generate -u 'worker:7?layout=javascript-safe&max-borrow=10s'
  uidring worker list --url-file /run/secrets/postgres-url",
        forms.join("\n")
    )
}
