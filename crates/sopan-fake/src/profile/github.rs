//! GitHub's REST API: numbered pages that `Link` leads through.

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
    let ["", "repos", owner, name, "issues"] = path.as_slice() else { return None };
    Some(issues(asked, shop, page_size, &format!("{owner}/{name}")))
}

fn issues(asked: &Asked<'_>, shop: &Shop, page_size: u64, repository: &str) -> Result<Reply, Wrong> {
    let size = asked.size("per_page", page_size, SIZE_MAX).ok_or(Wrong::Asked)?;
    let number = asked.number("page", 1).filter(|number| *number > 0).ok_or(Wrong::Asked)?;
    let view = shop.since(asked.time("since").ok_or(Wrong::Asked)?);
    let view = if asked.text("direction") == Some("asc") { view } else { view.newest_first() };
    let orders = view.orders((number - 1).saturating_mul(size), size);
    let reply = Reply::json(200, &list(&orders, |order| issue(order, repository)));
    let links = links(asked, number, view.total().div_ceil(size).max(1));
    Ok(if links.is_empty() { reply } else { reply.with(LINK, &links) })
}

/// In the order in which GitHub writes them; nothing where one page is all.
fn links(asked: &Asked<'_>, number: u64, pages: u64) -> String {
    let link =
        |relation: &str, page: u64| format!("<{}>; rel=\"{relation}\"", asked.with(&[("page", &page.to_string())]));
    let mut links = Vec::new();
    if number > 1 {
        links.push(link("prev", (number - 1).min(pages)));
    }
    if number < pages {
        links.extend([link("next", number + 1), link("last", pages)]);
    }
    if number > 1 {
        links.push(link("first", 1));
    }
    links.join(", ")
}

fn issue(order: &Order, repository: &str) -> serde_json::Value {
    json!({
        "id": 2_700_000_000_u64 + order.id,
        "node_id": format!("I_kwDO{:08x}", order.id),
        "number": order.id,
        "title": format!("Pesanan {}", order.code),
        "state": if order.status == "selesai" { "closed" } else { "open" },
        "user": {"login": order.customer.to_lowercase(), "id": 1000 + order.customer.len(), "type": "User"},
        "labels": [{"name": order.status}],
        "comments": order.items,
        "created_at": order.created_at,
        "updated_at": order.created_at,
        "html_url": format!("https://github.com/{repository}/issues/{}", order.id),
    })
}

pub(super) fn error(wrong: Wrong) -> Reply {
    let (status, message) = match wrong {
        Wrong::Limited => (429, "API rate limit exceeded."),
        Wrong::Failed => (500, "Server Error"),
        Wrong::Nobody => (401, "Requires authentication"),
        Wrong::Asked => (422, "Validation Failed"),
    };
    Reply::json(status, &json!({"message": message, "documentation_url": "https://docs.github.com/rest"}))
}

pub(super) fn fields(standing: Standing, now: u64) -> Vec<Field> {
    vec![
        ("x-ratelimit-limit", standing.limit.to_string()),
        ("x-ratelimit-remaining", standing.remaining.to_string()),
        ("x-ratelimit-reset", now.saturating_add(seconds_up(standing.reset)).to_string()),
        ("x-ratelimit-used", (standing.limit - standing.remaining).to_string()),
        ("x-ratelimit-resource", "core".to_owned()),
    ]
}
