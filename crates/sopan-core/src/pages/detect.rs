//! What is a collection like, by its first page?
//!
//! Where nobody says it, the first answer mostly does: by `Link`, by a name that many APIs give to the next page or its cursor,
//! by the parameters that it was asked with. What was found is told ([`Found`]), since a guess may be wrong; where nothing is
//! found there is one page.

use http::HeaderMap;
use http::header::LINK;
use serde_json::value::RawValue;
use url::Url;

use super::raw::{self, Pointer};
use super::walk::{Paging, Place};
use super::{Select, link};

/// Where APIs put the URL of the next page.
const URLS: [&str; 24] = [
    "/@odata.nextLink",
    "/odata.nextLink",
    "/d/__next",
    "/nextLink",
    "/next",
    "/links/next",
    "/links/next/href",
    "/_links/next",
    "/_links/next/href",
    "/paging/next",
    "/paging/next/link",
    "/pagination/next",
    "/pagination/next_url",
    "/pagination/links/next",
    "/meta/next",
    "/meta/links/next",
    "/meta/pagination/links/next",
    "/info/next",
    "/next_page_url",
    "/nextPageUrl",
    "/next_url",
    "/nextUrl",
    "/next_page",
    "/next_href",
];

/// Where they put a cursor, and the parameter that takes it.
const CURSORS: [(&str, &str); 20] = [
    ("/response_metadata/next_cursor", "cursor"),
    ("/next_cursor", "cursor"),
    ("/nextCursor", "cursor"),
    ("/meta/next_cursor", "cursor"),
    ("/meta/nextCursor", "cursor"),
    ("/pagination/next_cursor", "cursor"),
    ("/paging/next_cursor", "cursor"),
    ("/page_info/end_cursor", "after"),
    ("/pageInfo/endCursor", "after"),
    ("/paging/next/after", "after"),
    ("/paging/cursors/after", "after"),
    ("/cursors/after", "after"),
    ("/cursor/next", "cursor"),
    ("/nextPageToken", "pageToken"),
    ("/next_page_token", "page_token"),
    ("/next_token", "next_token"),
    ("/nextToken", "nextToken"),
    ("/meta/next_token", "pagination_token"),
    ("/continuation_token", "continuation_token"),
    ("/continuationToken", "continuationToken"),
];

/// Where they say whether there are more.
const MORES: [&str; 6] = [
    "/has_more",
    "/hasMore",
    "/page_info/has_next_page",
    "/pageInfo/hasNextPage",
    "/meta/has_more",
    "/pagination/has_more",
];

/// Parameters that number pages, and such that count records.
const NUMBERS: [&str; 6] = ["page", "page_number", "pageNumber", "page[number]", "pageno", "p"];
const OFFSETS: [&str; 7] = ["offset", "skip", "$skip", "startAt", "start", "page[offset]", "sysparm_offset"];

/// Where they put how many pages there are.
const COUNTS: [&str; 8] = [
    "/total_pages",
    "/totalPages",
    "/pages",
    "/last_page",
    "/meta/total_pages",
    "/meta/last_page",
    "/pagination/total_pages",
    "/page/totalPages",
];

/// Names that lists have.
const LISTS: [&str; 12] = [
    "/data",
    "/items",
    "/results",
    "/records",
    "/value",
    "/entries",
    "/objects",
    "/values",
    "/elements",
    "/rows",
    "/list",
    "/content",
];

/// What was found, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How pages follow each other.
    pub paging: Paging,
    /// Where a page says whether there are more.
    pub more: Option<Pointer>,
    /// By what that is known, in words.
    pub by: String,
}

/// How the pages of a collection follow each other, by the first of them, which was asked for at `url` and has these records.
///
/// # Errors
/// A body that is not JSON.
pub fn paging(url: &Url, headers: &HeaderMap, body: &[u8], records: &[&RawValue]) -> Result<Found, serde_json::Error> {
    let found = |paging, by: String| Found { paging, more: None, by };
    if link::with_relation(headers, "next").is_some() {
        return Ok(found(Paging::Link, "the field `Link` leads to the next page".to_owned()));
    }
    let urls = look(body, &URLS)?;
    let is_link = |text: &str| text.contains("://") || text.starts_with(['/', '?']);
    for (name, value) in URLS.iter().zip(&urls) {
        if value.and_then(raw::string).is_some_and(|text| is_link(&text)) {
            return Ok(found(Paging::Url(place(name)), format!("`{name}` holds the URL of the next page")));
        }
    }
    let mores = look(body, &MORES)?;
    let more = MORES.iter().zip(mores).find(|(_, value)| matches!(value.map(RawValue::get), Some("true" | "false")));
    let more = more.map(|(name, value)| (pointer(name), value.is_some_and(|value| value.get() == "true")));
    let cursors = look(body, &CURSORS.map(|(name, _)| name))?;
    let parameter = |name: &str, usual: &str| {
        // Lists of Notion give what they call a next cursor back as a start.
        let is_notion = name == "/next_cursor" && more.is_some() && is_list_object(body);
        if is_notion { "start_cursor".to_owned() } else { usual.to_owned() }
    };
    let is_cursor = |value: &RawValue| {
        raw::string(value).is_some_and(|text| !text.is_empty())
            || value.get().starts_with(|first: char| first.is_ascii_digit()) && value.get() != "0"
    };
    for ((name, usual), value) in CURSORS.iter().zip(&cursors) {
        if value.is_some_and(is_cursor) {
            let param = parameter(name, usual);
            let by = format!("`{name}` holds the cursor of the next page, which `{param}` takes");
            let more = more.map(|(more, _)| more);
            return Ok(Found { paging: Paging::Cursor { at: place(name), param }, more, by });
        }
    }
    if let Some((more, true)) = &more {
        let id = records
            .last()
            .and_then(|last| raw::pick(last.get().as_bytes(), [&pointer("/id")]).ok())
            .and_then(|[id]| id);
        if id.is_some() {
            let by = format!(
                "`{more}` says that there are more, which follow the `id` of the last record (`starting_after`)"
            );
            let paging = Paging::Last { at: pointer("/id"), param: "starting_after".to_owned() };
            return Ok(Found { paging, more: Some(more.clone()), by });
        }
    }
    if let Some(last) = what_is_last(headers, &urls, &cursors, more.as_ref().map(|(_, more)| *more)) {
        return Ok(found(Paging::Single, last));
    }
    let query: Vec<_> = url.query_pairs().map(|(name, _)| name).collect();
    let asked = |names: &[&'static str]| names.iter().copied().find(|name| query.iter().any(|asked| asked == name));
    if let Some(param) = asked(&NUMBERS) {
        let by = format!("`{param}` numbers pages, up to an empty one");
        return Ok(found(Paging::Number { param: param.to_owned() }, by));
    }
    if let Some(param) = asked(&OFFSETS) {
        let by = format!("`{param}` counts records, up to an empty page");
        return Ok(found(Paging::Offset { param: param.to_owned() }, by));
    }
    let counts = look(body, &COUNTS)?;
    let count = |value: &RawValue| value.get().parse::<u64>().ok();
    if let Some((name, pages)) = COUNTS.iter().zip(counts).find_map(|(name, value)| Some((name, count(value?)?))) {
        if pages <= 1 {
            return Ok(found(Paging::Single, format!("`{name}` says that this page is all")));
        }
        let by = format!("`{name}` says that there are {pages} pages, which `page` numbers");
        return Ok(found(Paging::Number { param: "page".to_owned() }, by));
    }
    Ok(found(Paging::Single, "nothing in it tells of a next page, so this one is taken for all".to_owned()))
}

/// What says that this page is the last one, if something does.
fn what_is_last(
    headers: &HeaderMap,
    urls: &[Option<&RawValue>],
    cursors: &[Option<&RawValue>],
    more: Option<bool>,
) -> Option<String> {
    let is_empty = |value: &Option<&RawValue>| value.is_some_and(|value| matches!(value.get(), "null" | "\"\""));
    let names = URLS.iter().copied().chain(CURSORS.iter().map(|(name, _)| *name));
    let ended = names.zip(urls.iter().chain(cursors)).find(|(_, value)| is_empty(value)).map(|(name, _)| name);
    let is_linked = ["first", "last", "prev"].iter().any(|relation| link::with_relation(headers, relation).is_some());
    match (more, ended) {
        (Some(false), _) => Some("it says that there are no more".to_owned()),
        (_, Some(name)) => Some(format!("nothing stands at `{name}`, where the next page would be")),
        _ if headers.contains_key(LINK) && is_linked => Some("the field `Link` leads to no next page".to_owned()),
        _ => None,
    }
}

/// Where the records of a page are: the page itself if it is a list, the one list in it that has a usual name, or the only one.
///
/// # Errors
/// A body that is not JSON.
pub fn records(body: &[u8]) -> Result<Option<Select>, serde_json::Error> {
    let [whole] = raw::pick(body, [&Pointer::default()])?;
    if whole.is_some_and(|whole| whole.get().starts_with('[')) {
        return Ok(Some(Select::List(Pointer::default())));
    }
    let lists = look(body, &LISTS)?;
    let is_list = |value: &&RawValue| value.get().starts_with('[');
    if let Some((name, _)) = LISTS.iter().zip(lists).find(|(_, value)| value.as_ref().is_some_and(is_list)) {
        return Ok(Some(Select::List(pointer(name))));
    }
    let fields: std::collections::BTreeMap<String, &RawValue> = match whole {
        Some(whole) if whole.get().starts_with('{') => serde_json::from_str(whole.get())?,
        _ => return Ok(None),
    };
    let mut lists = fields.into_iter().filter(|(_, value)| is_list(value)).map(|(name, _)| name);
    Ok(lists.next().filter(|_| lists.next().is_none()).map(|name| Select::List(Pointer::default().child(&name))))
}

fn is_list_object(body: &[u8]) -> bool {
    let found = raw::pick(body, [&pointer("/object")]).ok().and_then(|[object]| object);
    found.is_some_and(|object| object.get() == "\"list\"")
}

fn look<'a>(body: &'a [u8], names: &[&str]) -> Result<Vec<Option<&'a RawValue>>, serde_json::Error> {
    let pointers: Vec<_> = names.iter().map(|name| pointer(name)).collect();
    let mut found = vec![None; names.len()];
    raw::pick_all(body, &pointers.iter().collect::<Vec<_>>(), &mut found)?;
    Ok(found)
}

fn place(name: &str) -> Place {
    Place::Body(pointer(name))
}

/// Of our tables.
fn pointer(name: &str) -> Pointer {
    name.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_of_known_apis_are_told_by_their_first_page() {
        let url = |at: &str| Paging::Url(place(at));
        let cursor = |at: &str, param: &str| Paging::Cursor { at: place(at), param: param.to_owned() };
        let number = |param: &str| Paging::Number { param: param.to_owned() };
        let offset = |param: &str| Paging::Offset { param: param.to_owned() };
        let last = Paging::Last { at: pointer("/id"), param: "starting_after".to_owned() };
        for (query, link, body, expected, more) in [
            ("", "</r?page=2>; rel=\"next\", </r?page=5>; rel=\"last\"", "[1]", Paging::Link, None),
            ("page=5", "</r?page=1>; rel=\"first\", </r?page=4>; rel=\"prev\"", "[1]", Paging::Single, None),
            ("", "", r#"{"value":[1],"@odata.nextLink":"https://x/y?$skiptoken=a"}"#, url("/@odata.nextLink"), None),
            ("", "", r#"{"data":[1],"links":{"next":"/articles?page=3"}}"#, url("/links/next"), None),
            ("", "", r#"{"_links":{"next":{"href":"/x?p=2"}},"_embedded":{}}"#, url("/_links/next/href"), None),
            ("", "", r#"{"count":9,"next":"https://x/?page=2","previous":null,"results":[1]}"#, url("/next"), None),
            ("", "", r#"{"count":9,"next":null,"previous":null,"results":[1]}"#, Paging::Single, None),
            (
                "",
                "",
                r#"{"ok":true,"members":[1],"response_metadata":{"next_cursor":"dXNl"}}"#,
                cursor("/response_metadata/next_cursor", "cursor"),
                None,
            ),
            ("", "", r#"{"ok":true,"members":[1],"response_metadata":{"next_cursor":""}}"#, Paging::Single, None),
            (
                "",
                "",
                r#"{"object":"list","results":[1],"next_cursor":"b-c","has_more":true}"#,
                cursor("/next_cursor", "start_cursor"),
                Some("/has_more"),
            ),
            ("", "", r#"{"object":"list","data":[{"id":"ch_1"}],"has_more":true}"#, last.clone(), Some("/has_more")),
            ("", "", r#"{"object":"list","data":[{"id":"ch_1"}],"has_more":false}"#, Paging::Single, None),
            ("", "", r#"{"items":[1],"nextPageToken":"CAU"}"#, cursor("/nextPageToken", "pageToken"), None),
            (
                "",
                "",
                r#"{"results":[1],"paging":{"next":{"after":"17","link":"https://x/?after=17"}}}"#,
                url("/paging/next/link"),
                None,
            ),
            ("page=1&per_page=2", "", r#"{"data":[1]}"#, number("page"), None),
            ("page%5Bnumber%5D=1", "", r#"{"data":[1]}"#, number("page[number]"), None),
            ("limit=2&offset=0", "", r#"{"data":[1]}"#, offset("offset"), None),
            ("$top=2&$skip=0", "", r#"{"data":[1]}"#, offset("$skip"), None),
            ("", "", r#"{"data":[1],"page":1,"total_pages":7}"#, number("page"), None),
            ("", "", r#"{"data":[1],"page":1,"total_pages":1}"#, Paging::Single, None),
            ("", "", r#"{"data":[1]}"#, Paging::Single, None),
            ("", "", r#"{"data":[1],"next":7,"next_cursor":0}"#, Paging::Single, None),
        ] {
            let mut headers = HeaderMap::new();
            if !link.is_empty() {
                headers.insert(LINK, link.parse().unwrap());
            }
            let list = records(body.as_bytes()).unwrap();
            let records = list.map(|list| list.records(body.as_bytes()).unwrap()).unwrap_or_default();
            let url = format!("https://u.test/r?{query}").parse().unwrap();
            let found = paging(&url, &headers, body.as_bytes(), &records).unwrap();
            assert_eq!(
                (&found.paging, found.more),
                (&expected, more.map(pointer)),
                "{query} {link} {body}: {}",
                found.by
            );
        }
    }

    #[test]
    fn records_are_found_where_lists_usually_are() {
        for (body, expected) in [
            ("[1]", Some("the top")),
            (r#"{"data":[1],"errors":[]}"#, Some("/data")),
            (r#"{"meta":{},"value":[]}"#, Some("/value")),
            (r#"{"ok":true,"members":[1]}"#, Some("/members")),
            (r#"{"a/b":[1]}"#, Some("/a~1b")),
            (r#"{"members":[1],"channels":[1]}"#, None),
            (r#"{"error":"x"}"#, None),
            ("7", None),
        ] {
            assert_eq!(
                records(body.as_bytes()).unwrap().map(|select| select.to_string()).as_deref(),
                expected,
                "{body}"
            );
        }
        assert!(records(b"<html>").is_err());
    }
}
