//! GitLab's REST API: numbered pages, and what there is to know about them in fields.

use http::HeaderName;
use http::header::LINK;
use serde_json::json;

use super::{Answer, Field, Wrong, list, seconds_up};
use crate::limits::Standing;
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

const SIZE_MAX: u64 = 100;

pub(super) fn answer(asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Answer {
    let path: Vec<_> = asked.path.split('/').collect();
    let ["", "api", "v4", "projects", project, "issues"] = path.as_slice() else { return None };
    Some(issues(asked, shop, page_size, project))
}

fn issues(asked: &Asked<'_>, shop: &Shop, page_size: u64, project: &str) -> Result<Reply, Wrong> {
    let size = asked.size("per_page", page_size, SIZE_MAX).ok_or(Wrong::Asked)?;
    let number = asked.number("page", 1).filter(|number| *number > 0).ok_or(Wrong::Asked)?;
    let view = shop.since(asked.time("updated_after").ok_or(Wrong::Asked)?);
    let view = if asked.text("sort") == Some("asc") { view } else { view.newest_first() };
    let orders = view.orders((number - 1).saturating_mul(size), size);
    let pages = view.total().div_ceil(size).max(1);
    let page = |number: u64| asked.with(&[("page", &number.to_string())]);
    let next = (number < pages).then_some(number + 1);
    let previous = (number > 1).then(|| number - 1);
    let links = [("prev", previous), ("next", next), ("first", Some(1)), ("last", Some(pages))];
    let links =
        links.into_iter().filter_map(|(relation, number)| Some(format!("<{}>; rel=\"{relation}\"", page(number?))));
    let mut reply = Reply::json(200, &list(&orders, |order| issue(order, project)));
    reply = reply.with(LINK, &links.collect::<Vec<_>>().join(", "));
    // Where there is no such page, the field stands there with nothing in it.
    let told = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    for (name, number) in [
        ("x-next-page", next),
        ("x-page", Some(number)),
        ("x-per-page", Some(size)),
        ("x-prev-page", previous),
        ("x-total", Some(view.total())),
        ("x-total-pages", Some(pages)),
    ] {
        reply = reply.with(HeaderName::from_static(name), &told(number));
    }
    Ok(reply)
}

fn issue(order: &Order, project: &str) -> serde_json::Value {
    json!({
        "id": 84_000_000 + order.id,
        "iid": order.id,
        "project_id": project,
        "title": format!("Pesanan {}", order.code),
        "state": if order.status == "selesai" { "closed" } else { "opened" },
        "author": {"username": order.customer.to_lowercase()},
        "labels": [order.status],
        "user_notes_count": order.items,
        "created_at": order.created_at,
        "updated_at": order.created_at,
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, message) = match wrong {
        Wrong::Limited => (429, "429 Too Many Requests"),
        Wrong::Failed => (500, "500 Internal Server Error"),
        Wrong::Nobody => (401, "401 Unauthorized"),
        Wrong::Asked => (400, "400 Bad request"),
    };
    Reply::json(status, &json!({"message": message}))
}

pub(super) fn fields(standing: Standing, now: u64) -> Vec<Field> {
    vec![
        ("ratelimit-limit", standing.limit.to_string()),
        ("ratelimit-observed", (standing.limit - standing.remaining).to_string()),
        ("ratelimit-remaining", standing.remaining.to_string()),
        ("ratelimit-reset", now.saturating_add(seconds_up(standing.reset)).to_string()),
    ]
}
