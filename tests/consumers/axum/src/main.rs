//! A web service whose handlers share one generator. Any number of instances may run, on any hosts: each start gets its
//! own worker id from a table in PostgreSQL. `uidring worker init` creates the table; docs/postgresql.md shows it, and
//! the rights that it needs.
//!
//! ```sh
//! POSTGRES_URL_FILE=url.txt LISTEN=127.0.0.1:3000 cargo run
//! curl -X POST http://127.0.0.1:3000/orders
//! ```

use std::env;
use std::error::Error;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use uidring::{CachedUidGenerator, Uid};
use uidring_postgres::PostgresStore;

#[derive(Serialize)]
struct Order {
    // JavaScript would round the number.
    #[serde(with = "uidring::serde_forms::string")]
    id: Uid,
}

/// `try_next_uid` never blocks.
async fn create(
    State(generator): State<Arc<CachedUidGenerator>>,
) -> Result<Json<Order>, StatusCode> {
    let id = generator.try_next_uid().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(Order { id }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url_file = env::var_os("POSTGRES_URL_FILE")
        .ok_or("POSTGRES_URL_FILE is not set: name the file that holds the URL of the database")?;
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".into());
    // Before the generator: a signal that comes meanwhile ends the service later.
    let mut end = signal(SignalKind::terminate())?;

    let workers = PostgresStore::from_url_file(url_file)?.worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers).build_async().await?;
    let service = Router::new()
        .route("/orders", post(create))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(Arc::new(generator));

    let listener = TcpListener::bind(&listen).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, service)
        .with_graceful_shutdown(async move {
            end.recv().await;
        })
        .await?;
    Ok(())
}
