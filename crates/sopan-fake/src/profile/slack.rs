//! Slack's Web API: a cursor in the body, empty at the end, and errors that come with status 200.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use super::{Answer, Wrong, epoch, list};
use crate::cursor;
use crate::orders::{Order, Shop};
use crate::query::{Asked, parse_whole};
use crate::reply::Reply;

const SIZE_MAX: u64 = 999;

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    (asked.path == "/api/conversations.history").then(|| history(asked, shop, page_size))
}

fn history(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Result<Reply, Wrong> {
    if asked.field("authorization").is_none() {
        return Err(Wrong::Nobody);
    }
    if asked.text("channel").is_none() {
        return Ok(refusal("channel_not_found"));
    }
    let size = asked.size("limit", page_size, SIZE_MAX).ok_or(Wrong::Asked)?;
    // `1767225600.000200`: what stands before the point is a time, and after it what makes it unique.
    let seconds = |ts: &str| parse_whole(ts.split('.').next().unwrap_or_default());
    let oldest = asked.text("oldest").map_or(Some(0), seconds).ok_or(Wrong::Asked)?;
    let oldest = UNIX_EPOCH.checked_add(Duration::from_secs(oldest)).ok_or(Wrong::Asked)?;
    let after = match asked.text("cursor").filter(|cursor| !cursor.is_empty()) {
        None => None,
        Some(text) => match cursor::read(text) {
            Some(id) => Some(id),
            None => return Ok(refusal("invalid_cursor")),
        },
    };
    let (orders, has_more) = shop.since(oldest).newest_first().after(after, size);
    let cursor = orders.last().filter(|_| has_more).map(|last| cursor::write(last.id)).unwrap_or_default();
    Ok(Reply::json(
        200,
        &json!({
            "ok": true,
            "messages": list(&orders, message),
            "has_more": has_more,
            "pin_count": 0,
            "response_metadata": {"next_cursor": cursor},
        }),
    ))
}

fn message(order: &Order) -> serde_json::Value {
    json!({
        "type": "message",
        "user": format!("U{:08X}", order.customer.len()),
        "text": format!("Pesanan {} {}", order.code, order.status),
        "ts": format!("{}.{:06}", epoch(order), order.id % 1_000_000),
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, error) = match wrong {
        Wrong::Limited => (429, "ratelimited"),
        Wrong::Failed => (500, "internal_error"),
        Wrong::Nobody => (200, "not_authed"),
        Wrong::Asked => (200, "invalid_arguments"),
    };
    Reply::json(status, &json!({"ok": false, "error": error}))
}

fn refusal(error: &str) -> Reply {
    Reply::json(200, &json!({"ok": false, "error": error}))
}
