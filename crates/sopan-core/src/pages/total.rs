//! How many records and pages are there, by what a page says?

use http::HeaderMap;
use serde_json::value::RawValue;
use url::Url;

use super::raw::{self, Pointer};
use super::{Paging, link};

const FIELDS: [&str; 5] = ["x-total-count", "x-total", "x-wp-total", "total-count", "x-pagination-total"];
const PAGE_FIELDS: [&str; 4] = ["x-total-pages", "x-wp-totalpages", "x-pagination-total-pages", "x-page-count"];
const RECORDS: [&str; 14] = [
    "/total",
    "/total_count",
    "/totalCount",
    "/total_results",
    "/totalResults",
    "/@odata.count",
    "/meta/total",
    "/meta/total_count",
    "/meta/pagination/total",
    "/pagination/total",
    "/pagination/total_count",
    "/page/totalElements",
    "/info/count",
    "/count",
];
const PAGES: [&str; 9] = [
    "/total_pages",
    "/totalPages",
    "/pages",
    "/last_page",
    "/meta/total_pages",
    "/meta/last_page",
    "/pagination/total_pages",
    "/page/totalPages",
    "/info/pages",
];

/// How many there are, as far as a page says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// Records in all pages.
    pub records: Option<u64>,
    /// Pages.
    pub pages: Option<u64>,
}

impl Total {
    /// What a page says that was asked for at `url` and has `records`.
    pub fn of(url: &Url, headers: &HeaderMap, body: &[u8], records: u64, paging: &Paging) -> Self {
        let field = |names: &[&str]| {
            names.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse::<u64>().ok())
        };
        // What one page has is written as a count by some.
        let all = field(&FIELDS).or_else(|| number(body, &RECORDS)).filter(|all| *all >= records);
        let by_link = || {
            let last = url.join(link::with_relation(headers, "last")?).ok()?;
            let param = match paging {
                Paging::Number { param } => param,
                _ => "page",
            };
            last.query_pairs().find(|(name, _)| name == param).and_then(|(_, value)| value.parse().ok())
        };
        let pages = field(&PAGE_FIELDS).or_else(|| number(body, &PAGES)).or_else(by_link).filter(|pages| *pages > 0);
        let by_size = || all.filter(|_| records > 0).map(|all| all.div_ceil(records));
        Self { records: all, pages: pages.or_else(by_size) }
    }
}

fn number(body: &[u8], names: &[&str]) -> Option<u64> {
    let pointers: Vec<Pointer> = names.iter().map(|name| name.parse().unwrap_or_default()).collect();
    let mut found = vec![None; names.len()];
    raw::pick_all(body, &pointers.iter().collect::<Vec<_>>(), &mut found).ok()?;
    found.into_iter().flatten().find_map(|value: &RawValue| value.get().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_where_apis_put_it() {
        for (field, body, records, expected) in [
            (Some(("x-total-count", "250")), "[]", 100, (Some(250), Some(3))),
            (Some(("x-total-pages", "7")), "[]", 100, (None, Some(7))),
            (Some(("link", "</?page=34>; rel=last")), "[]", 30, (None, Some(34))),
            (None, r#"{"total":5,"total_pages":2}"#, 3, (Some(5), Some(2))),
            (None, r#"{"meta":{"total":10}}"#, 10, (Some(10), Some(1))),
            (None, r#"{"count":87,"results":[]}"#, 10, (Some(87), Some(9))),
            (None, r#"{"count":3}"#, 10, (None, None)),
            (None, r#"{"total":"many","total_pages":0}"#, 10, (None, None)),
            (None, r#"{"total":7}"#, 0, (Some(7), None)),
            (Some(("x-total-count", "x")), "<html>", 10, (None, None)),
        ] {
            let mut headers = HeaderMap::new();
            if let Some((name, value)) = field {
                headers.insert(name, value.parse().unwrap());
            }
            let url = "http://u.test/x".parse().unwrap();
            let total = Total::of(&url, &headers, body.as_bytes(), records, &Paging::Link);
            assert_eq!((total.records, total.pages), expected, "{field:?} {body}");
        }
    }
}
