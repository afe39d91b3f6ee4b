//! Stripe's API: the newest first, and the next page is what comes after the id of the last record.

use serde_json::json;

use std::time::{Duration, UNIX_EPOCH};

use super::{Answer, Wrong, epoch, list};
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

const PATH: &str = "/v1/charges";
const SIZE_MAX: u64 = 100;

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    (asked.path == PATH).then(|| charges(asked, shop, page_size))
}

fn charges(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Result<Reply, Wrong> {
    if asked.field("authorization").is_none() {
        return Err(Wrong::Nobody);
    }
    // Too much is refused here, not cut.
    let size = asked.number("limit", page_size).filter(|size| (1..=SIZE_MAX).contains(size)).ok_or(Wrong::Asked)?;
    let since = Duration::from_secs(asked.number("created[gte]", 0).ok_or(Wrong::Asked)?);
    let since = UNIX_EPOCH.checked_add(since).ok_or(Wrong::Asked)?;
    let after = asked.text("starting_after").map(|id| read_id(id).ok_or(Wrong::Asked)).transpose()?;
    let (orders, has_more) = shop.since(since).newest_first().after(after, size);
    let page = json!({"object": "list", "url": PATH, "has_more": has_more, "data": list(&orders, charge)});
    Ok(Reply::json(200, &page))
}

fn charge(order: &Order) -> serde_json::Value {
    json!({
        "id": format!("ch_{:014x}", order.id),
        "object": "charge",
        "amount": order.total_idr,
        "currency": "idr",
        "created": epoch(order),
        "paid": order.status != "dibatalkan",
        "status": if order.status == "dibatalkan" { "failed" } else { "succeeded" },
        "billing_details": {"name": order.customer},
        "metadata": {"order": order.code},
    })
}

fn read_id(id: &str) -> Option<u64> {
    u64::from_str_radix(id.strip_prefix("ch_")?, 16).ok()
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, kind, message) = match wrong {
        Wrong::Limited => (429, "invalid_request_error", "Request rate limit exceeded."),
        Wrong::Failed => (500, "api_error", "Sorry! An error occurred."),
        Wrong::Nobody => (401, "invalid_request_error", "You did not provide an API key."),
        Wrong::Asked => (400, "invalid_request_error", "Invalid parameter."),
    };
    let reply = Reply::json(status, &json!({"error": {"type": kind, "message": message}}));
    if wrong == Wrong::Limited {
        return reply.with(http::HeaderName::from_static("stripe-rate-limited-reason"), "global-rate");
    }
    reply
}
