//! Where a worker id comes from.

use uidring::generator::SnowflakeNode;
use uidring::worker::{EnvWorkerId, FixedWorkerId, Ordinal};
use uidring::{Error, Layout, WorkerRequest, WorkerSource};
use uidring_store::LeaseOptions;

use crate::args::layout::ResolvedLayout;
use crate::args::worker::{LeaseArgs, WorkerArgs, WorkerKind};
use crate::args::{check, set};
use crate::failure::Failure;
use crate::{report, stores};

/// The source that the flags name, else the environment, else the user's own file. Checks all flags
/// about worker ids; nothing is spent yet.
pub fn source(
    args: &WorkerArgs,
    layout: ResolvedLayout,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    let WorkerArgs { worker_id, table, registry, .. } = args;
    let by_variable = EnvWorkerId::is_set() && worker_id.is_none() && !table.database.is_named();
    match args.lease.worker {
        WorkerKind::Disposable => {}
        WorkerKind::Lease => return leased(args, by_variable),
        WorkerKind::Ordinal => return ordinal(args, by_variable, &layout.layout),
    }
    let lacks_id = args.start_after.is_some() && worker_id.is_none() && !EnvWorkerId::is_set();
    let has_no_datacenter = args.datacenter_id.is_some() && !layout.has_datacenters;
    check(&[
        ("--lease", args.lease.lease.is_some(), "needs --worker lease or --worker ordinal"),
        (
            "--lease-wait",
            args.lease.lease_wait.is_some(),
            "needs --worker lease or --worker ordinal",
        ),
        ("--ordinal-offset", args.lease.ordinal_offset.is_some(), "needs --worker ordinal"),
        (
            "--start-after",
            lacks_id,
            "needs a worker id of your choice: --worker-id or UIDRING_WORKER_ID",
        ),
        ("--datacenter-id", has_no_datacenter, "is for --generator snowflake, or its preset"),
    ])?;
    if registry.zookeeper.is_some() {
        table.database.refuse_server_flags()?;
        return stores::instance(registry, &args.instance, table.max_clock_difference);
    }
    if worker_id.is_none() && !by_variable {
        return Ok(stores::worker_table(table)?);
    }
    table.refuse_server_flags()?;
    let fixed = fixed(args, layout)?;
    if args.start_after.is_none() {
        report::warning(format_args!(
            "a fixed worker id ({fixed}) has no memory: another run within one tick, after a long \
             borrow, or after the clock was set back repeats uids; name the greatest uid so far with \
             --start-after, or let --sqlite, --mysql or --postgres assign worker ids"
        ));
    }
    Ok(Box::new(FixedWorkerId(fixed)))
}

/// Whether worker ids come from a table, and not from the flags, the environment, or a registry.
#[cfg(feature = "server")]
pub fn is_from_table(args: &WorkerArgs) -> bool {
    let is_chosen = args.worker_id.is_some() || args.registry.zookeeper.is_some();
    !is_chosen && (args.table.database.is_named() || !EnvWorkerId::is_set())
}

/// The worker id of the flags, which have Twitter's form in two parts, or of the environment variable,
/// which is as wrong as the flag would be if it does not fit the layout.
fn fixed(args: &WorkerArgs, layout: ResolvedLayout) -> Result<u64, Failure> {
    let request = WorkerRequest::new(layout.layout);
    let worker = match (args.datacenter_id, args.worker_id) {
        (Some(datacenter_id), Some(worker_id)) => {
            SnowflakeNode { datacenter_id, worker_id }.acquire(&request)
        }
        (_, Some(worker)) => FixedWorkerId(worker).acquire(&request),
        (_, None) => EnvWorkerId.acquire(&request),
    };
    let source = if args.worker_id.is_some() { "--worker-id" } else { EnvWorkerId::VARIABLE };
    let worker = worker.map_err(|error| match error {
        Error::WorkerIdOutOfRange { worker_id, max } => Failure::Usage(format!(
            "{source} {worker_id} is out of range: layout {} has worker ids 0 to {max}; choose one of \
             them, or a --layout with more worker bits",
            layout.layout
        )),
        error => Failure::usage(error),
    })?;
    Ok(worker.id())
}

/// A worker id that is leased from a table.
fn leased(args: &WorkerArgs, by_variable: bool) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    const OWN: &str = "is a worker id of your choice, and --worker lease takes one from a table";
    let WorkerArgs { lease, registry, table, .. } = args;
    let is_registry = registry.zookeeper.is_some();
    let has_start_after = args.start_after.is_some();
    let has_max_clock_difference = table.max_clock_difference.is_some();
    check(&[
        ("--worker-id", args.worker_id.is_some(), OWN),
        (EnvWorkerId::VARIABLE, by_variable, OWN),
        (
            "--zookeeper",
            is_registry,
            "is not for --worker lease: a registry keeps worker ids itself",
        ),
        (
            "--start-after",
            has_start_after,
            "is not for --worker lease, which knows what was issued",
        ),
        ("--max-clock-difference", has_max_clock_difference, "is for --worker disposable"),
        ("--ordinal-offset", lease.ordinal_offset.is_some(), "needs --worker ordinal"),
    ])?;
    Ok(stores::open(&table.database)?.lease_table(options(lease))?)
}

fn options(args: &LeaseArgs) -> LeaseOptions {
    let options = LeaseOptions::default().wait_for(args.lease_wait.unwrap_or_default());
    set(options, args.lease, LeaseOptions::lasts)
}

/// The worker id of this pod's ordinal, leased from a file on its volume.
fn ordinal(
    args: &WorkerArgs,
    by_variable: bool,
    layout: &Layout,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    const OWN: &str = "is a worker id of your choice, and --worker ordinal takes the pod's";
    const KEEPS: &str =
        "is not for --worker ordinal, which keeps what was issued in the file of --sqlite";
    let WorkerArgs { lease, registry, table, .. } = args;
    let (mysql, postgres) = (&table.database.mysql_args, &table.database.postgres_args);
    check(&[
        ("--worker-id", args.worker_id.is_some(), OWN),
        (EnvWorkerId::VARIABLE, by_variable, OWN),
        ("--zookeeper", registry.zookeeper.is_some(), KEEPS),
        ("--mysql", mysql.mysql.is_some(), KEEPS),
        ("--mysql-url-file", mysql.mysql_url_file.is_some(), KEEPS),
        ("--postgres", postgres.postgres.is_some(), KEEPS),
        ("--postgres-url-file", postgres.postgres_url_file.is_some(), KEEPS),
        ("--etcd", table.database.etcd.etcd.is_some(), KEEPS),
        ("--start-after", args.start_after.is_some(), KEEPS),
    ])?;
    table.refuse_server_flags()?;
    let path = table.database.sqlite.as_deref().ok_or_else(|| {
        Failure::Usage(
            "--worker ordinal needs --sqlite: a file on the pod's volume, which holds what was issued, so \
             that a second pod of this ordinal repeats nothing. Without a volume, use --worker lease \
             with --mysql-url-file"
                .into(),
        )
    })?;
    let ordinal = Ordinal::from_env()
        .map_err(|error| Failure::Usage(format!("--worker ordinal: {error}")))?
        .offset(lease.ordinal_offset.unwrap_or_default());
    ordinal.worker_id(layout).map_err(|error| match error {
        Error::WorkerIdOutOfRange { worker_id, max } => Failure::Usage(format!(
            "--worker ordinal: ordinal {} with --ordinal-offset {} is worker id {worker_id}, and layout \
             {layout} has worker ids 0 to {max}; choose a lower offset, or a --layout with more worker \
             bits",
            ordinal.number(),
            lease.ordinal_offset.unwrap_or_default()
        )),
        error => Failure::usage(error),
    })?;
    Ok(stores::file(Some(path))?.worker_of(ordinal, options(lease))?)
}
