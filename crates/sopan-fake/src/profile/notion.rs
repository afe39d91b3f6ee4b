//! Notion's API: a cursor in the body, null at the end, which the parameter `start_cursor` takes.

use serde_json::json;

use super::{Answer, Wrong, list};
use crate::cursor;
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

const SIZE_MAX: u64 = 100;

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    (asked.path == "/v1/users").then(|| users(asked, shop, page_size))
}

fn users(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Result<Reply, Wrong> {
    if asked.field("authorization").is_none() {
        return Err(Wrong::Nobody);
    }
    if asked.field("notion-version").is_none() {
        return Ok(problem(400, "missing_version", "Notion-Version header should be defined."));
    }
    let size = asked.number("page_size", page_size).filter(|size| (1..=SIZE_MAX).contains(size)).ok_or(Wrong::Asked)?;
    let after = asked.text("start_cursor").map(|text| cursor::read(text).ok_or(Wrong::Asked)).transpose()?;
    let (orders, has_more) = shop.since(std::time::UNIX_EPOCH).after(after, size);
    let cursor = orders.last().filter(|_| has_more).map(|last| cursor::write(last.id));
    Ok(Reply::json(
        200,
        &json!({
            "object": "list",
            "results": list(&orders, user),
            "next_cursor": cursor,
            "has_more": has_more,
            "type": "user",
            "user": {},
        }),
    ))
}

fn user(order: &Order) -> serde_json::Value {
    json!({
        "object": "user",
        "id": format!("d40e767c-d7af-4b18-a86d-{:012x}", order.id),
        "type": "person",
        "name": format!("{} {}", order.customer, order.code),
        "avatar_url": null,
        "person": {"email": format!("{}@example.com", order.code.to_lowercase())},
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    match wrong {
        Wrong::Limited => {
            problem(429, "rate_limited", "You have been rate limited. Please try again in a few minutes.")
        }
        Wrong::Failed => problem(500, "internal_server_error", "Unexpected error occurred."),
        Wrong::Nobody => problem(401, "unauthorized", "API token is invalid."),
        Wrong::Asked => problem(400, "validation_error", "The query does not match the expected schema."),
    }
}

fn problem(status: u16, code: &str, message: &str) -> Reply {
    Reply::json(status, &json!({"object": "error", "status": status, "code": code, "message": message}))
}
