//! Statements in their own sessions.

use std::time::Duration;

use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

/// Rows of texts. NULL is `NULL`.
pub type Rows = Vec<Vec<String>>;

/// Executes statements in one session, within the limit.
pub fn query(config: &Config, limit: Duration, sql: &str) -> Result<Rows, String> {
    let session = async {
        let (client, connection) = config.connect(NoTls).await?;
        let driver = tokio::spawn(connection);
        let messages = client.simple_query(sql).await;
        drop(client);
        let _ = driver.await;
        messages
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let limited = async { tokio::time::timeout(limit, session).await };
    let messages = match runtime.expect("a runtime").block_on(limited) {
        Ok(messages) => messages.map_err(|error| crate::chain(&error))?,
        Err(_) => return Err("no answer in time".to_owned()),
    };
    let texts = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let texts = (0..row.len()).map(|index| row.get(index).unwrap_or("NULL").to_owned());
            Some(texts.collect())
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(texts).collect())
}
