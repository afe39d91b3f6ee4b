//! One collection, the shop's orders, in every way in which APIs tell of the next page.
//!
//! A path each, so that a client is tried on one way at a time and none of them can be mistaken for another. Those that count
//! tell the total, those with a cursor do not, as it is with vendors.

use http::HeaderName;
use http::header::LINK;
use serde::Serialize;

use crate::cursor;
use crate::orders::{Order, PAGE_SIZE_MAX, Shop, View};
use crate::query::Asked;
use crate::reply::Reply;

/// What stands before the name of the way.
pub(crate) const PREFIX: &str = "/api/v1/collection/";

#[derive(Serialize)]
struct Counted {
    data: Vec<Order>,
    total: u64,
}

#[derive(Serialize)]
struct Linked {
    data: Vec<Order>,
    total: u64,
    next: Option<String>,
}

#[derive(Serialize)]
struct Continued {
    data: Vec<Order>,
    has_more: bool,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct More {
    data: Vec<Order>,
    has_more: bool,
}

/// A page in the way that `way` names; none where there is no such way.
pub(crate) fn page(way: &str, asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Option<Reply> {
    let answer = match way {
        "numbered" => numbered,
        "offset" => offset,
        "next" => next,
        "link" => link,
        "cursor" => cursor_in_body,
        "header" => cursor_in_field,
        "last" => last,
        _ => return None,
    };
    let size = asked.number("size", page_size).filter(|size| (1..=PAGE_SIZE_MAX).contains(size));
    let (Some(size), Some(since)) = (size, asked.time("since")) else {
        return Some(Reply::bad_request(&format!("size harus dari 1 sampai {PAGE_SIZE_MAX}, since sebuah waktu UTC.")));
    };
    let Some(answer) = answer(asked, &shop.since(since), size) else {
        return Some(Reply::bad_request("Halaman yang diminta tidak ada."));
    };
    Some(answer)
}

fn numbered(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let number = asked.number("page", 1).filter(|number| *number > 0)?;
    let data = view.orders((number - 1).saturating_mul(size), size);
    Some(Reply::json(200, &Counted { data, total: view.total() }))
}

fn offset(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let data = view.orders(asked.number("offset", 0)?, size);
    Some(Reply::json(200, &Counted { data, total: view.total() }))
}

/// The URL of the next page in the body, null after the last.
fn next(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let (data, next) = by_number(asked, view, size)?;
    Some(Reply::json(200, &Linked { data, total: view.total(), next }))
}

/// A bare list, with the URL of the next page in `Link` and the total in a field.
fn link(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let (data, following) = by_number(asked, view, size)?;
    let first = format!("<{}>; rel=\"first\"", asked.with(&[("page", "1")]));
    let links = following.map_or_else(|| first.clone(), |next| format!("<{next}>; rel=\"next\", {first}"));
    let reply = Reply::json(200, &data).with(LINK, &links);
    Some(reply.with(HeaderName::from_static("x-total-count"), &view.total().to_string()))
}

fn by_number(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<(Vec<Order>, Option<String>)> {
    let number = asked.number("page", 1).filter(|number| *number > 0)?;
    let data = view.orders((number - 1).saturating_mul(size), size);
    let has_more = number.saturating_mul(size) < view.total();
    Some((data, has_more.then(|| asked.with(&[("page", &(number + 1).to_string())]))))
}

fn cursor_in_body(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let (data, next_cursor) = by_cursor(asked, view, size)?;
    Some(Reply::json(200, &Continued { data, has_more: next_cursor.is_some(), next_cursor }))
}

/// A bare list, with the cursor in a field of the answer.
fn cursor_in_field(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let (data, following) = by_cursor(asked, view, size)?;
    let reply = Reply::json(200, &data);
    Some(match following {
        Some(cursor) => reply.with(HeaderName::from_static("x-next-cursor"), &cursor),
        None => reply,
    })
}

fn by_cursor(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<(Vec<Order>, Option<String>)> {
    let after = asked.text("cursor").map_or(Some(None), |text| cursor::read(text).map(Some))?;
    let (data, has_more) = view.after(after, size);
    let following = data.last().filter(|_| has_more).map(|last| cursor::write(last.id));
    Some((data, following))
}

/// No cursor at all: the next page is what comes after the id of the last record.
fn last(asked: &Asked<'_>, view: &View<'_>, size: u64) -> Option<Reply> {
    let after = asked.number("after", 0)?;
    let (data, has_more) = view.after(Some(after).filter(|id| *id > 0), size);
    Some(Reply::json(200, &More { data, has_more }))
}
