//! A web service whose handlers share one generator. `try_next_uid` never blocks; building the
//! generator does, since it asks for a worker id.
//!
//! `cargo run --example service`

use std::error::Error;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uidring::{CachedUidGenerator, Uid};
use uidring_sqlite::SqliteStore;

#[derive(Serialize, Deserialize)]
struct Order {
    // JavaScript would round the number.
    #[serde(with = "uidring::serde_forms::string")]
    id: Uid,
}

async fn create(
    State(generator): State<Arc<CachedUidGenerator>>,
) -> Result<Json<Order>, StatusCode> {
    let id = generator.try_next_uid().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(Order { id }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let workers = SqliteStore::new(folder.path().join("uidring.db")).create(true).worker_nodes();
    let build = move || CachedUidGenerator::builder().worker_from(workers).build();
    let generator = Arc::new(tokio::task::spawn_blocking(build).await??);
    let service = Router::new().route("/orders", post(create)).with_state(generator);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, service).await });

    let mut last = Uid::default();
    for _ in 0..3 {
        let mut connection = TcpStream::connect(address).await?;
        let request = "POST /orders HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        connection.read_to_string(&mut response).await?;
        let (_, json) = response.split_once("\r\n\r\n").ok_or("no body")?;
        println!("{json}");
        let order: Order = serde_json::from_str(json)?;
        assert!(order.id > last, "one generator orders the ids of all connections");
        last = order.id;
    }
    Ok(())
}
