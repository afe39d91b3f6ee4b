//! Where does a traversal stand, and what does it ask for next?

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;
use url::Url;

use super::raw::{self, Pointer};
use super::total::Total;
use super::{link, select};
use crate::headers::Parameter;

/// Where a page tells something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In its body.
    Body(Pointer),
    /// In a field of the answer.
    Field(HeaderName),
}

/// How the pages of a collection follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paging {
    /// There is one page.
    Single,
    /// `Link` with `rel=next` leads to the next one (RFC 8288).
    Link,
    /// There stands the URL of the next one.
    Url(Place),
    /// There stands what this parameter of the query is for the next one.
    Cursor {
        /// Where.
        at: Place,
        /// The parameter's name.
        param: String,
    },
    /// This of the last record is what this parameter of the query is for the next one.
    Last {
        /// Where in the record.
        at: Pointer,
        /// The parameter's name.
        param: String,
    },
    /// This parameter counts pages; an empty page is the end, or the last one that a page tells of.
    Number {
        /// Its name.
        param: String,
    },
    /// This parameter counts the records before a page; an empty page is the end, or the last record that a page tells of.
    Offset {
        /// Its name.
        param: String,
    },
}

/// What a collection is like, and how far it is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How its pages follow each other.
    pub paging: Paging,
    /// Where a page says whether there are more; `false` there is the end, whatever else it says.
    pub more: Option<Pointer>,
    /// Other names of the API: links that lead there are followed where the first page was.
    pub hosts: Vec<String>,
    /// Of numbered pages one that has fewer records than the first is the last.
    pub short_ends: bool,
}

/// What came for a page.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The fields of the answer.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
    /// Its records.
    pub records: &'a [&'a RawValue],
}

/// What follows a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is another one.
    Next,
    /// That was the last one.
    End,
}

/// Why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// It would ask for what it has asked for already.
    #[error(
        "page {page} says that {what} is next, which was asked for already: the API leads in a circle, so what comes after that page is not known"
    )]
    Circle {
        /// The page that says so.
        page: u64,
        /// The next one, as it says it.
        what: String,
    },
    /// A link that leads away from the API.
    #[error(
        "page {page} says that the next page is at `{host}`, not at `{ours}`; if that is the same API, say so with `--link-host {host}`"
    )]
    OffSite {
        /// The page that says so.
        page: u64,
        /// Where it leads.
        host: String,
        /// Where the API is.
        ours: String,
    },
    /// What stands there is neither a next page nor the end.
    #[error(
        "page {page} has {found} at `{at}`, where {wanted} is to be; null, an empty string or nothing at all are the end"
    )]
    Senseless {
        /// The page.
        page: u64,
        /// What is there.
        found: &'static str,
        /// Where.
        at: String,
        /// What would make sense.
        wanted: &'static str,
    },
    /// There is more, but nobody says where.
    #[error("page {page} says that there are more, but nothing at `{at}`, where the next one is to be told")]
    Nowhere {
        /// The page.
        page: u64,
        /// Where it would stand.
        at: String,
    },
    /// The last record does not say what comes after it.
    #[error(
        "page {page} ends with a record that has nothing at `{at}`, so what comes after it cannot be asked for; an empty page would be the end"
    )]
    Unmarked {
        /// The page.
        page: u64,
        /// Where the record would say it.
        at: String,
    },
    /// A link that cannot be read.
    #[error("page {page} says that the next page is at `{link}`, which is no URL")]
    NoUrl {
        /// The page.
        page: u64,
        /// What it says.
        link: String,
    },
}

/// A traversal of a collection.
#[derive(Debug, Clone)]
pub struct Walk {
    rules: Rules,
    /// Where the first page is.
    first: Url,
    /// The page to ask for: its number from 1, and where it is.
    page: u64,
    url: Url,
    /// Digests of what was asked for where pages lead to the next one.
    asked: HashSet<u64>,
    /// Records of the first page.
    size: u64,
    /// How many there are, by the first page that came here, and where that ends by that one.
    total: Option<Total>,
    is_over: bool,
}

impl Walk {
    /// The traversal that begins at `first`, an http or https URL.
    pub fn new(first: Url, rules: Rules) -> Self {
        let asked = HashSet::from([digest(first.as_str())]);
        Self { rules, url: first.clone(), first, page: 1, asked, size: 0, total: None, is_over: false }
    }

    /// What is to be asked for, and the how many-th page that is, from 1; none when all was.
    pub fn now(&self) -> Option<(u64, &Url)> {
        (!self.is_over).then_some((self.page, &self.url))
    }

    /// Where the first page is.
    pub fn first(&self) -> &Url {
        &self.first
    }

    /// How pages follow each other.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Goes on where another traversal of the same stood: `page` is at `url`, the first one had `size` records, and these were
    /// asked for. None for `url` if that one was over.
    pub fn resume(&mut self, page: u64, url: Option<Url>, size: u64, asked: impl IntoIterator<Item = u64>) {
        self.is_over = url.is_none();
        (self.page, self.url, self.size) = (page, url.unwrap_or_else(|| self.first.clone()), size);
        self.asked.extend(asked);
    }

    /// How many records the first page had.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// By what it is known that the page that is to be asked for was asked for already; none where pages are counted.
    pub fn digest(&self) -> Option<u64> {
        (!self.is_counted()).then(|| digest(self.url.as_str()))
    }

    /// Pages that are counted and so can be asked for before those before them have come: where the one `ahead` of the present
    /// one is.
    pub fn ahead(&self, ahead: u64) -> Option<Url> {
        if self.is_over {
            return None;
        }
        match &self.rules.paging {
            _ if ahead == 0 => Some(self.url.clone()),
            Paging::Number { param } => Some(self.counted(param, ahead)),
            Paging::Offset { param } if self.size > 0 => Some(self.counted(param, ahead.saturating_mul(self.size))),
            _ => None,
        }
    }

    /// Takes in what came for the present page.
    ///
    /// # Errors
    /// A page after which nobody can say how to go on.
    pub fn came(&mut self, reply: &Reply<'_>) -> Result<Step, WalkError> {
        let count = reply.records.len() as u64;
        if self.page == 1 {
            self.size = count;
        }
        self.learn_total(reply);
        let next = match self.more(reply)? {
            Some(false) => None,
            more => self.next(reply, more.is_some())?,
        };
        let Some(next) = next else {
            self.is_over = true;
            return Ok(Step::End);
        };
        if !self.is_counted() && !self.asked.insert(digest(next.as_str())) {
            // Without a record it has said all that there is.
            if count == 0 {
                self.is_over = true;
                return Ok(Step::End);
            }
            let what = self.shown(&next);
            return Err(WalkError::Circle { page: self.page, what });
        }
        (self.page, self.url) = (self.page + 1, next);
        Ok(Step::Next)
    }

    fn is_counted(&self) -> bool {
        matches!(self.rules.paging, Paging::Number { .. } | Paging::Offset { .. } | Paging::Single)
    }

    /// Whether the page says that there are more.
    fn more(&self, reply: &Reply<'_>) -> Result<Option<bool>, WalkError> {
        let Some(at) = &self.rules.more else { return Ok(None) };
        match self.stands(at, reply).map(RawValue::get) {
            Some("true") => Ok(Some(true)),
            Some("false" | "null") => Ok(Some(false)),
            None => Ok(None),
            Some(_) => {
                let found = self.stands(at, reply).map_or("nothing", select::kind);
                Err(WalkError::Senseless { page: self.page, found, at: at.to_string(), wanted: "`true` or `false`" })
            }
        }
    }

    /// What comes after this page; `must` if it said that something does.
    fn next(&self, reply: &Reply<'_>, must: bool) -> Result<Option<Url>, WalkError> {
        let found = match &self.rules.paging {
            Paging::Single => return Ok(None),
            Paging::Link => link::with_relation(reply.headers, "next").map(str::to_owned),
            Paging::Url(at) => self.text_at(at, reply, "the URL of the next page")?,
            Paging::Cursor { at, .. } => self.text_at(at, reply, "the cursor of the next page")?,
            Paging::Last { at, .. } => match reply.records.last() {
                Some(last) => {
                    let id = raw::pick(last.get().as_bytes(), [at]).ok().and_then(|[id]| id).and_then(text);
                    let unmarked = || WalkError::Unmarked { page: self.page, at: at.to_string() };
                    Some(id.filter(|id| !id.is_empty()).ok_or_else(unmarked)?)
                }
                None => return Ok(None),
            },
            Paging::Number { param } => return Ok(self.goes_on(reply).then(|| self.counted(param, 1))),
            Paging::Offset { param } => {
                return Ok(self.goes_on(reply).then(|| self.counted(param, reply.records.len() as u64)));
            }
        };
        match (&self.rules.paging, found) {
            (_, None) if must => Err(WalkError::Nowhere { page: self.page, at: self.rules.paging.to_string() }),
            (_, None) => Ok(None),
            (Paging::Cursor { param, .. } | Paging::Last { param, .. }, Some(value)) => {
                Ok(Some(with_parameter(&self.first, param, &value)))
            }
            (_, Some(link)) => self.follow(&link).map(Some),
        }
    }

    /// Whether a counted page is followed by another.
    fn goes_on(&self, reply: &Reply<'_>) -> bool {
        let count = reply.records.len() as u64;
        count > 0 && !(self.rules.short_ends && count < self.size) && !self.is_last(reply)
    }

    /// Whether that many there are.
    fn is_last(&self, reply: &Reply<'_>) -> bool {
        let Some(total) = self.total else { return false };
        match &self.rules.paging {
            Paging::Number { param } => total.pages.is_some_and(|pages| self.value(param) >= pages),
            Paging::Offset { param } => {
                let so_far = self.value(param).saturating_add(reply.records.len() as u64);
                total.records.is_some_and(|all| so_far >= all)
            }
            _ => false,
        }
    }

    /// How many there are, where that ends it: what the first page says, unless the one that would be the last knows of more.
    fn learn_total(&mut self, reply: &Reply<'_>) {
        let (Paging::Number { .. } | Paging::Offset { .. }) = &self.rules.paging else { return };
        if self.total.is_none() || self.is_last(reply) {
            let size = usize::try_from(self.size).unwrap_or(usize::MAX);
            self.total = Some(Total::of(&self.url, reply.headers, reply.body, size, &self.rules.paging));
        }
    }

    /// The present page's URL with that much added to what a parameter counts.
    fn counted(&self, param: &str, by: u64) -> Url {
        with_parameter(&self.url, param, &self.value(param).saturating_add(by).to_string())
    }

    /// What a parameter counts on the present page. Pages that are not counted from the start are counted from 1.
    fn value(&self, param: &str) -> u64 {
        let start = u64::from(matches!(self.rules.paging, Paging::Number { .. }));
        let now = self.url.query_pairs().find(|(name, _)| name == param).and_then(|(_, value)| value.parse().ok());
        now.unwrap_or(start)
    }

    fn stands<'a>(&self, at: &Pointer, reply: &Reply<'a>) -> Option<&'a RawValue> {
        raw::pick(reply.body, [at]).ok().and_then(|[found]| found)
    }

    /// What stands there, if that is something with which to go on; none where that is the end.
    fn text_at(&self, at: &Place, reply: &Reply<'_>, wanted: &'static str) -> Result<Option<String>, WalkError> {
        let at = match at {
            Place::Body(at) => at,
            Place::Field(name) => {
                let value = reply.headers.get(name).and_then(|value| value.to_str().ok());
                return Ok(value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()));
            }
        };
        let Some(value) = self.stands(at, reply).filter(|value| value.get() != "null") else { return Ok(None) };
        match text(value) {
            Some(text) if text.is_empty() => Ok(None),
            Some(text) if raw::string(value).is_some() || matches!(self.rules.paging, Paging::Cursor { .. }) => {
                Ok(Some(text))
            }
            _ => {
                let found = select::kind(value);
                Err(WalkError::Senseless { page: self.page, found, at: at.to_string(), wanted })
            }
        }
    }

    /// Where a link leads; only to the API itself.
    fn follow(&self, link: &str) -> Result<Url, WalkError> {
        let no_url = || WalkError::NoUrl { page: self.page, link: shortened(link) };
        let mut next = self.url.join(link).map_err(|_| no_url())?;
        next.set_fragment(None);
        if next.origin() == self.first.origin() {
            return Ok(next);
        }
        let host = next.host_str().ok_or_else(no_url)?;
        if self.rules.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)) {
            let mut here = self.first.clone();
            here.set_path(next.path());
            here.set_query(next.query());
            return Ok(here);
        }
        let named = |url: &Url| {
            let host = url.host_str().unwrap_or_default();
            url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
        };
        let ours = if next.host_str() == self.first.host_str() {
            // Else they would look the same.
            (
                format!("{}://{}", next.scheme(), named(&next)),
                format!("{}://{}", self.first.scheme(), named(&self.first)),
            )
        } else {
            (named(&next), named(&self.first))
        };
        Err(WalkError::OffSite { page: self.page, host: ours.0, ours: ours.1 })
    }

    /// The next page as the API named it.
    fn shown(&self, next: &Url) -> String {
        match &self.rules.paging {
            Paging::Cursor { param, .. } | Paging::Last { param, .. } => {
                let value = next.query_pairs().find(|(name, _)| name == param.as_str());
                format!("`{param}={}`", shortened(&value.map_or_else(String::new, |(_, value)| value.into_owned())))
            }
            _ => {
                let query = next.query().map_or_else(String::new, |query| format!("?{query}"));
                format!("`{}`", shortened(&format!("{}{query}", next.path())))
            }
        }
    }
}

/// Words for where the next page is told.
impl fmt::Display for Paging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("none"),
            Self::Link => f.write_str("link"),
            Self::Url(at) => at.fmt(f),
            Self::Cursor { at, .. } => at.fmt(f),
            Self::Last { at, .. } => write!(f, "last:{at}"),
            Self::Number { .. } => f.write_str("page"),
            Self::Offset { .. } => f.write_str("offset"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(at) => at.fmt(f),
            Self::Field(name) => write!(f, "header:{name}"),
        }
    }
}

/// A string or a number that stands for something, as it goes into a query. 0 stands for nothing.
fn text(value: &RawValue) -> Option<String> {
    let number = || {
        let text = value.get();
        let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        (is_number && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte))).then(|| text.to_owned())
    };
    raw::string(value).or_else(number)
}

/// The URL with this as the only value of that parameter; all else of the query stays to the byte.
fn with_parameter(url: &Url, name: &str, value: &str) -> Url {
    let parameter = Parameter::new(name);
    let target = match url.query() {
        Some(query) => format!("/?{query}"),
        None => "/".to_owned(),
    };
    let rest = parameter.without(&target).unwrap_or(target);
    let target = Parameter::with(&rest, &parameter.written(value.as_bytes()));
    let mut url = url.clone();
    url.set_query(target.split_once('?').map(|(_, query)| query));
    url
}

/// As much of it as a message takes, without what a terminal would obey.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn digest(url: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "http://u.test/items?per_page=2";

    fn rules(paging: Paging) -> Rules {
        Rules { paging, more: None, hosts: Vec::new(), short_ends: false }
    }

    fn at(pointer: &str) -> Place {
        Place::Body(pointer.parse().unwrap())
    }

    /// Walks through pages, each told as its fields and body with so many records at `/data`; answers what was asked for, and
    /// how it ended.
    fn walk(rules: Rules, pages: &[(&str, &str)]) -> (Vec<String>, Result<(), String>) {
        let mut walk = Walk::new(FIRST.parse().unwrap(), rules);
        let mut asked = Vec::new();
        for (link, body) in pages {
            let Some((page, url)) = walk.now() else {
                panic!("it has ended before page {}: {asked:?}", asked.len() + 1)
            };
            asked.push(url.as_str().trim_start_matches("http://u.test").to_owned());
            assert_eq!(page as usize, asked.len());
            let mut headers = HeaderMap::new();
            if !link.is_empty() {
                headers.insert("link", link.parse().unwrap());
                headers.insert("x-next", link.parse().unwrap());
            }
            let [list] = raw::pick(body.as_bytes(), [&"/data".parse().unwrap()]).unwrap();
            let records = list.and_then(raw::elements).unwrap_or_default();
            match walk.came(&Reply { headers: &headers, body: body.as_bytes(), records: &records }) {
                Ok(Step::Next) => {}
                Ok(Step::End) => return (asked, Ok(())),
                Err(error) => return (asked, Err(error.to_string())),
            }
        }
        panic!("it goes on: {:?}", walk.now())
    }

    #[track_caller]
    fn check(rules: Rules, pages: &[(&str, &str)], expected: &[&str]) {
        let (asked, end) = walk(rules, pages);
        assert_eq!(
            (asked.as_slice(), end),
            (&expected.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()[..], Ok(()))
        );
    }

    #[test]
    fn pages_follow_each_other_in_every_way_that_apis_have() {
        let full = r#"{"data":[1,2]}"#;
        check(rules(Paging::Single), &[("", full)], &["/items?per_page=2"]);
        let link = "<?page=2&per_page=2>; rel=next";
        check(rules(Paging::Link), &[(link, full), ("", full)], &["/items?per_page=2", "/items?page=2&per_page=2"]);
        let next = r#"{"data":[1],"next":"http://u.test/items?after=%2Fx"}"#;
        check(rules(Paging::Url(at("/next"))), &[("", next), ("", full)], &["/items?per_page=2", "/items?after=%2Fx"]);
        let cursor = |at| Paging::Cursor { at, param: "cursor".to_owned() };
        let page = r#"{"data":[1],"next":"a/b+c="}"#;
        let second = "/items?per_page=2&cursor=a%2Fb%2Bc%3D";
        check(rules(cursor(at("/next"))), &[("", page), ("", full)], &["/items?per_page=2", second]);
        check(
            rules(cursor(at("/next"))),
            &[("", page), ("", r#"{"data":[],"next":17}"#), ("", full)],
            &["/items?per_page=2", second, "/items?per_page=2&cursor=17"],
        );
        check(
            rules(cursor(Place::Field(HeaderName::from_static("x-next")))),
            &[("tok", full), ("", full)],
            &["/items?per_page=2", "/items?per_page=2&cursor=tok"],
        );
        let last = Paging::Last { at: "/id".parse().unwrap(), param: "starting_after".to_owned() };
        let more = Rules { more: Some("/has_more".parse().unwrap()), ..rules(last) };
        check(
            more,
            &[
                ("", r#"{"data":[{"id":"a"},{"id":"b"}],"has_more":true}"#),
                ("", r#"{"data":[{"id":"c"}],"has_more":false}"#),
            ],
            &["/items?per_page=2", "/items?per_page=2&starting_after=b"],
        );
        let numbered = rules(Paging::Number { param: "page".to_owned() });
        let pages = [("", full), ("", r#"{"data":[1]}"#), ("", r#"{"data":[]}"#)];
        let [first, second, third] = ["/items?per_page=2", "/items?per_page=2&page=2", "/items?per_page=2&page=3"];
        check(numbered.clone(), &pages, &[first, second, third]);
        check(Rules { short_ends: true, ..numbered }, &pages[..2], &[first, second]);
        let offset = rules(Paging::Offset { param: "$skip".to_owned() });
        check(offset, &pages, &[first, "/items?per_page=2&%24skip=2", "/items?per_page=2&%24skip=3"]);
    }

    /// Some APIs answer 404 to a page beyond the last one.
    #[test]
    fn nothing_is_asked_for_beyond_what_a_page_says_that_there_is() {
        let numbered = || rules(Paging::Number { param: "page".to_owned() });
        let [first, second, third] = ["/items?per_page=2", "/items?per_page=2&page=2", "/items?per_page=2&page=3"];
        let of = |total: u8| format!(r#"{{"data":[1,2],"total":{total}}}"#);
        let pages = |totals: &[u8]| totals.iter().map(|total| of(*total)).collect::<Vec<_>>();
        for (totals, expected) in [
            (&[4, 4][..], &[first, second][..]),
            (&[2], &[first]),
            // It has grown meanwhile.
            (&[4, 6, 6], &[first, second, third]),
            // It was less all along, which nobody reads but where it would end.
            (&[6, 4, 4], &[first, second, third]),
        ] {
            let pages = pages(totals);
            let pages: Vec<_> = pages.iter().map(|page| ("", page.as_str())).collect();
            check(numbered(), &pages, expected);
        }
        let pages = pages(&[3, 4]);
        let offset = rules(Paging::Offset { param: "skip".to_owned() });
        check(offset, &[("", &pages[1]), ("", &pages[1])], &[first, "/items?per_page=2&skip=2"]);
    }

    /// pg-1 of the cases.
    #[test]
    fn a_page_that_leads_to_one_that_was_there_ends_it() {
        let link = |page: u8| format!("<http://u.test/items?page={page}>; rel=next");
        let pages = [link(2), link(3), link(3)];
        let pages: Vec<_> = pages.iter().map(|link| (link.as_str(), r#"{"data":[1]}"#)).collect();
        let (asked, end) = walk(rules(Paging::Link), &pages);
        assert_eq!(asked.len(), 3);
        let circle = "page 3 says that `/items?page=3` is next, which was asked for already: the API leads in a circle, so what comes after that page is not known";
        assert_eq!(end, Err(circle.to_owned()));
        let cursor = || rules(Paging::Cursor { at: at("/next"), param: "c".to_owned() });
        let page = |next: &str, rows: &str| format!(r#"{{"data":[{rows}],"next":"{next}"}}"#);
        let of = |pages: &[String]| walk(cursor(), &pages.iter().map(|page| ("", page.as_str())).collect::<Vec<_>>());
        let (asked, end) = of(&[page("b", "1"), page("c", "1"), page("c", "1")]);
        assert!(asked.len() == 3 && end.as_ref().unwrap_err().contains("`c=c`"), "{end:?}");
        let (asked, end) = of(&[page("b", "1"), page("c", "1"), page("c", "")]);
        assert_eq!((asked.len(), end), (3, Ok(())));
        let (asked, end) = of(&[page("b", "1"), page("c", "1"), page("b", "1")]);
        assert!(asked.len() == 3 && end.unwrap_err().contains("`c=b`"));
    }

    /// pg-3 of the cases.
    #[test]
    fn what_stands_for_no_next_page_is_the_end_and_what_makes_no_sense_an_error() {
        for paging in [Paging::Url(at("/meta/next")), Paging::Cursor { at: at("/meta/next"), param: "c".to_owned() }] {
            for body in
                [r#"{"meta":{"next":null}}"#, r#"{"meta":{}}"#, "{}", r#"{"meta":null}"#, r#"{"meta":{"next":""}}"#]
            {
                check(rules(paging.clone()), &[("", body)], &["/items?per_page=2"]);
            }
            for (next, found) in [
                ("false", "a truth value"),
                ("0", "a number"),
                ("0.0", "a number"),
                ("{}", "an object"),
                ("[]", "a list"),
            ] {
                let (_, end) = walk(rules(paging.clone()), &[("", &format!(r#"{{"meta":{{"next":{next}}}}}"#))]);
                let end = end.unwrap_err();
                assert!(end.starts_with(&format!("page 1 has {found} at `/meta/next`")), "{next}: {end}");
            }
        }
        let more = |more: &str| Rules { more: Some("/more".parse().unwrap()), ..rules(Paging::Url(at(more))) };
        check(more("/next"), &[("", r#"{"more":false,"next":"/2"}"#)], &["/items?per_page=2"]);
        let (_, end) = walk(more("/next"), &[("", r#"{"more":true,"next":null}"#)]);
        assert_eq!(
            end.unwrap_err(),
            "page 1 says that there are more, but nothing at `/next`, where the next one is to be told"
        );
        let (_, end) = walk(more("/next"), &[("", r#"{"more":"yes"}"#)]);
        assert!(end.unwrap_err().starts_with("page 1 has a string at `/more`"));
    }

    /// pg-4 of the cases.
    #[test]
    fn an_empty_page_ends_only_what_is_counted() {
        let page = |next: &str, rows: &str| format!(r#"{{"data":[{rows}],"next":{next}}}"#);
        let pages = [page("\"b\"", "1,2"), page("\"c\"", ""), page("\"d\"", "3"), page("null", "4,5")];
        let pages: Vec<_> = pages.iter().map(|page| ("", page.as_str())).collect();
        let (asked, end) = walk(rules(Paging::Cursor { at: at("/next"), param: "c".to_owned() }), &pages);
        assert_eq!((asked.len(), end), (4, Ok(())));
    }

    /// A name that is written wrongly must not pass for a collection of one page.
    #[test]
    fn a_last_record_that_does_not_say_what_comes_after_it_is_no_end() {
        let last = || Paging::Last { at: "/id".parse().unwrap(), param: "after".to_owned() };
        let more = |more: &str| Rules { more: Some(more.parse().unwrap()), ..rules(last()) };
        for record in [r#"{"no":1}"#, r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":{}}"#, "7"] {
            let page = format!(r#"{{"data":[{{"id":"a"}},{record}],"more":true}}"#);
            for rules in [rules(last()), more("/more"), more("/gone")] {
                let (_, end) = walk(rules, &[("", &page)]);
                let why = "page 1 ends with a record that has nothing at `/id`, so what comes after it cannot be asked for; an empty page would be the end";
                assert_eq!(end, Err(why.to_owned()), "{record}");
            }
        }
        check(rules(last()), &[("", r#"{"data":[]}"#)], &["/items?per_page=2"]);
        check(more("/more"), &[("", r#"{"data":[{"no":1}],"more":false}"#)], &["/items?per_page=2"]);
    }

    #[test]
    fn links_never_lead_away_from_the_api() {
        for (link, host) in [
            ("https://u.test/items?page=2", Err("https://u.test")),
            ("http://u.test:8080/2", Err("http://u.test:8080")),
            ("//evil.test/2", Err("evil.test")),
            ("http://u.test@evil.test/2", Err("evil.test")),
            ("HTTP://U.TEST:80/2#x", Ok("/2")),
            ("http://api.test/v2/2?a=b", Ok("/v2/2?a=b")),
            ("/../2", Ok("/2")),
        ] {
            let rules = Rules { hosts: vec!["api.test".to_owned()], ..rules(Paging::Url(at("/next"))) };
            let page = format!(r#"{{"next":"{link}"}}"#);
            let (asked, end) = walk(rules, &[("", &page), ("", "{}")]);
            match host {
                Ok(target) => assert_eq!((asked.last().map(String::as_str), end), (Some(target), Ok(()))),
                Err(host) => assert!(end.unwrap_err().contains(&format!("is at `{host}`")), "{link}"),
            }
        }
        for link in ["http://", "mailto:x@y", "data:,x"] {
            let (_, end) = walk(rules(Paging::Url(at("/next"))), &[("", &format!(r#"{{"next":"{link}"}}"#))]);
            assert!(end.is_err(), "{link}");
        }
    }

    #[test]
    fn counted_pages_are_known_ahead_and_a_traversal_goes_on_where_it_stood() {
        let mut walk =
            Walk::new("http://u.test/?page=3".parse().unwrap(), rules(Paging::Number { param: "page".to_owned() }));
        assert_eq!(walk.ahead(2).unwrap().as_str(), "http://u.test/?page=5");
        walk.resume(4, Some("http://u.test/?page=6".parse().unwrap()), 10, []);
        assert_eq!((walk.now().unwrap().0, walk.ahead(1).unwrap().as_str()), (4, "http://u.test/?page=7"));
        let mut walk = Walk::new("http://u.test/".parse().unwrap(), rules(Paging::Link));
        assert_eq!(walk.ahead(1), None);
        let before = walk.digest().unwrap();
        walk.resume(2, Some("http://u.test/b".parse().unwrap()), 10, [before, walk.digest().unwrap()]);
        let mut headers = HeaderMap::new();
        headers.insert("link", "</>; rel=next".parse().unwrap());
        let one = RawValue::from_string("1".to_owned()).unwrap();
        assert!(walk.came(&Reply { headers: &headers, body: b"{}", records: &[&one] }).is_err());
        walk.resume(2, None, 10, []);
        assert_eq!(walk.now(), None);
    }
}
