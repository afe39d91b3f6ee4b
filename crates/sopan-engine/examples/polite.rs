//! A polite client of a rate-limited API, and the pages of a collection:
//!
//! ```text
//! sopan fake-api --limit '10/s burst 5' --rate-limit-first 1
//! cargo run -p sopan-engine --example polite -- http://127.0.0.1:8765
//! ```
//!
//! The API allows ten requests a second and five at once, and answers the first with 429, which costs one wait. The client asks
//! as fast as it can, and never meets another.
//!
//! Both state the burst. An API that allows none has no room for requests that bunch up on the way, so that a client must stay
//! well below its rate (`rate_margin`).
use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroUsize;

use serde::Deserialize;
use sopan_engine::pages::Paging;
use sopan_engine::{ApiClient, PagesSettings, RetryPolicy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8765".to_owned());
    run(&url, &mut io::stdout().lock()).await
}

/// Asks the API at `url`, and writes what comes of it.
pub(crate) async fn run(url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let api = ApiClient::builder(url)?
        .limit("10/s burst 5".parse()?)
        .retry(RetryPolicy { max_retries: 5, ..RetryPolicy::default() })
        .build()?;

    // One answer, as a type of yours.
    let health: Health = api.get_json("/api/v1/health").await?;
    writeln!(out, "the API says: {}", health.status)?;

    // A whole collection. Nothing is said of it, so its first page tells where the records are and how to go on.
    let mut pages = api.pages("/api/v1/orders?size=10", PagesSettings::default());
    let (mut orders, mut total) = (0, 0);
    while let Some(page) = pages.next().await {
        let page = page?;
        if let Some(found) = &page.found {
            writeln!(out, "how it goes on: {}", found.by)?;
        }
        for record in page.records() {
            let order: Order = serde_json::from_slice(record)?;
            (orders, total) = (orders + 1, total + order.total_idr);
        }
    }
    writeln!(out, "{orders} orders of {total} rupiah")?;

    // Pages that have numbers need not wait for each other; they come in their order all the same.
    let settings = PagesSettings {
        paging: Some(Paging::Number { param: "page".to_owned() }),
        concurrency: NonZeroUsize::new(4),
        pages_max: Some(5),
        ..PagesSettings::default()
    };
    let mut pages = api.pages("/api/v1/orders?size=10&page=1", settings);
    while let Some(page) = pages.next().await {
        let page = page?;
        writeln!(out, "page {} has {} of {}", page.number, page.records().len(), page.total.records.unwrap_or(0))?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Health {
    status: String,
}

#[derive(Deserialize)]
struct Order {
    total_idr: u64,
}
