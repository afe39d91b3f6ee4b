//! An OData 4.0 service whose pages are as long as it sees fit, as Microsoft's are: `@odata.nextLink` holds the next one.

use serde_json::{Value, json};

use super::{Answer, Field, Wrong, list, seconds_up};
use crate::cursor;
use crate::limits::Standing;
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

const SIZE_MAX: u64 = 1000;
/// How a client says how long a page may be.
const PAGE_SIZE: &str = "odata.maxpagesize=";

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    (asked.path == "/odata/v4/Orders").then(|| orders(asked, shop, page_size))
}

fn orders(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Result<Reply, Wrong> {
    let preferred = asked
        .field("prefer")
        .and_then(|prefer| prefer.split([',', ';']).find_map(|one| one.trim().strip_prefix(PAGE_SIZE)));
    let size = preferred.and_then(|size| size.parse().ok()).filter(|size| *size > 0).unwrap_or(page_size).min(SIZE_MAX);
    let after = asked.text("$skiptoken").map(|token| cursor::read(token).ok_or(Wrong::Asked)).transpose()?;
    let view = shop.since(std::time::UNIX_EPOCH);
    let (orders, has_more) = view.after(after, size);
    let mut page = json!({"@odata.context": "$metadata#Orders"});
    if asked.text("$count") == Some("true") {
        page["@odata.count"] = view.total().into();
    }
    page["value"] = list(&orders, order).into();
    if let Some(last) = orders.last().filter(|_| has_more) {
        page["@odata.nextLink"] = asked.with(&[("$skiptoken", &cursor::write(last.id))]).into();
    }
    Ok(Reply::json(200, &page))
}

fn order(order: &Order) -> Value {
    json!({
        "@odata.etag": format!("W/\"{:08x}\"", order.id),
        "OrderID": order.id,
        "Code": order.code,
        "CustomerName": order.customer,
        "Quantity": order.items,
        "Total": order.total_idr,
        "ModifiedAt": order.created_at,
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, code, message) = match wrong {
        Wrong::Limited => (429, "TooManyRequests", "Too many requests."),
        Wrong::Failed => (500, "InternalServerError", "An internal error occurred."),
        Wrong::Nobody => (401, "InvalidAuthenticationToken", "Access token is empty."),
        Wrong::Asked => (400, "BadRequest", "The query is not valid."),
    };
    Reply::json(status, &json!({"error": {"code": code, "message": message}}))
}

pub(super) fn fields(standing: Standing) -> Vec<Field> {
    vec![
        ("ratelimit-limit", standing.limit.to_string()),
        ("ratelimit-remaining", standing.remaining.to_string()),
        ("ratelimit-reset", seconds_up(standing.reset).to_string()),
    ]
}
