//! Statements in their own sessions.

use std::time::Duration;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, OptsBuilder};

/// Executes one statement in its own session, within the limit.
pub fn query<T: FromRow + Send + 'static>(
    opts: OptsBuilder,
    limit: Duration,
    sql: &str,
) -> Result<Vec<T>, String> {
    // The server's default may be no autocommit, but helpers' statements must commit.
    let opts = opts.init(vec!["SET autocommit = 1"]);
    let session = async {
        let mut connection = Conn::new(opts).await?;
        let rows = connection.query(sql).await?;
        connection.disconnect().await?;
        Ok::<_, mysql_async::Error>(rows)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(async { tokio::time::timeout(limit, session).await })
    {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}
