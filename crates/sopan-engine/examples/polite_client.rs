//! A polite client of a rate-limited API: `cargo run -p sopan-engine --example polite_client`.
//!
//! The API is a fake one in the same process. It allows ten requests a second and five at once, and answers the first with
//! 429; the client asks for twenty pages as fast as it can, and never meets another.
//!
//! Both state the burst. An API that allows none has no room for requests that bunch up on the way, so that a client must
//! stay well below its rate (`rate_margin`).
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
    let allowed = Limit::Rate { tokens: 10, per: Duration::from_secs(1), burst: 5 };
    let fake = FakeApi::new(Settings { limits: vec![allowed], rate_limit_first: 1, ..Settings::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(fake.clone().serve(listener, std::future::pending()));

    let api = ApiClient::builder(&url)?.limit("10/s burst 5".parse()?).build()?;
    let begun = Instant::now();
    for page in 1..=20 {
        let orders: serde_json::Value = api.get_json(&format!("/api/v1/orders?page={page}&size=5")).await?;
        let count = orders["data"].as_array().map_or(0, Vec::len);
        println!("{:>5.2} s  page {page}: {count} orders of {}", begun.elapsed().as_secs_f64(), orders["total"]);
    }
    let statuses: Vec<_> = fake.log().iter().filter_map(|entry| entry.status).collect();
    println!("what the API answered: {statuses:?}");
    Ok(())
}
