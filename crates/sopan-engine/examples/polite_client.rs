//! A polite client of a rate-limited API: `cargo run -p sopan-engine --example polite_client`.
//!
//! The API is a fake one in the same process. It allows five requests a second and answers the first with 429; the client
//! asks for ten pages as fast as it can, and never meets another.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it is the program of somebody who uses the library"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use sopan_engine::ApiClient;
use sopan_fake::{FakeApi, Limit, Settings};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let allowed = Limit::Rate { tokens: 5, per: Duration::from_secs(1), burst: 1 };
    let fake = FakeApi::new(Settings { limits: vec![allowed], rate_limit_first: 1, ..Settings::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(fake.clone().serve(listener, std::future::pending()));

    let api = ApiClient::builder(&url)?.limit("5/s".parse()?).build()?;
    let begun = Instant::now();
    for page in 1..=10 {
        let orders: serde_json::Value = api.get_json(&format!("/api/v1/orders?page={page}&size=10")).await?;
        let count = orders["data"].as_array().map_or(0, Vec::len);
        println!("{:>5.2} s  page {page}: {count} orders of {}", begun.elapsed().as_secs_f64(), orders["total"]);
    }
    let statuses: Vec<_> = fake.log().iter().filter_map(|entry| entry.status).collect();
    println!("what the API answered: {statuses:?}");
    Ok(())
}
