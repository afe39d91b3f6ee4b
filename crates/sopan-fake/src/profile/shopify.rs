//! Shopify's REST Admin API: `Link` with a cursor, beside which nothing but the size may stand.

use http::header::LINK;
use serde_json::json;

use super::{Answer, Field, Wrong, list};
use crate::cursor;
use crate::limits::Standing;
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

const SIZE_MAX: u64 = 250;

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    let path: Vec<_> = asked.path.split('/').collect();
    let ["", "admin", "api", _version, "orders.json"] = path.as_slice() else { return None };
    Some(orders(asked, shop, page_size))
}

fn orders(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Result<Reply, Wrong> {
    const SINCE: &str = "updated_at_min";
    if asked.field("x-shopify-access-token").is_none() {
        return Err(Wrong::Nobody);
    }
    let size = asked.size("limit", page_size, SIZE_MAX).ok_or(Wrong::Asked)?;
    let cursor = asked.text("page_info").map(|cursor| cursor.split_once('.').ok_or(Wrong::Asked)).transpose()?;
    if cursor.is_some() && asked.text(SINCE).is_some() {
        return Err(Wrong::Asked);
    }
    // What is filtered by goes on in the cursor.
    let (since, after) = match cursor {
        None => (asked.time(SINCE).ok_or(Wrong::Asked)?, None),
        Some((since, after)) => {
            (crate::http_date::from_iso8601(since).ok_or(Wrong::Asked)?, Some(cursor::read(after).ok_or(Wrong::Asked)?))
        }
    };
    let (orders, has_more) = shop.since(since).after(after, size);
    let reply = Reply::json(200, &json!({"orders": list(&orders, order)}));
    Ok(match orders.last().filter(|_| has_more) {
        None => reply,
        Some(last) => {
            let cursor = format!("{}.{}", crate::http_date::iso8601(since), cursor::write(last.id));
            let next = asked.only(&[("limit", &size.to_string()), ("page_info", &cursor)]);
            reply.with(LINK, &format!("<{next}>; rel=\"next\""))
        }
    })
}

fn order(order: &Order) -> serde_json::Value {
    json!({
        "id": 5_900_000_000_000_u64 + order.id,
        "name": format!("#{}", 1000 + order.id),
        "currency": "IDR",
        // Money is a text, so that nobody rounds it.
        "total_price": format!("{}.00", order.total_idr),
        "financial_status": if order.status == "dibatalkan" { "voided" } else { "paid" },
        "customer": {"first_name": order.customer},
        "line_items": [{"quantity": order.items}],
        "created_at": order.created_at,
        "updated_at": order.created_at,
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, message) = match wrong {
        Wrong::Limited => {
            (429, "Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service.")
        }
        Wrong::Failed => (500, "Internal Server Error"),
        Wrong::Nobody => (401, "[API] Invalid API key or access token (unrecognized login or wrong password)"),
        Wrong::Asked => (400, "Invalid value."),
    };
    Reply::json(status, &json!({"errors": message}))
}

pub(super) fn fields(standing: Standing) -> Vec<Field> {
    let used = standing.limit - standing.remaining;
    vec![("x-shopify-shop-api-call-limit", format!("{used}/{}", standing.limit))]
}
