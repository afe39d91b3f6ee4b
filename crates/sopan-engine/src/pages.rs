//! How is a collection read, page by page?
//!
//! [`Pages`] asks for one page after the other, each as politely as any request of its client, and gives them in their order. What
//! comes after a page, and what of it is a record, decides `sopan_core::pages`, whose types are found here too; a collection of
//! which nothing is said is told by its first page. The next page is asked for when it is wanted, and not before, so that a
//! caller can put on file where it stands. Pages that are counted may be asked for several at once: those that are on their way
//! and those that have come and were not taken yet are never more than [`PagesSettings::concurrency`].
//!
//! A request that fails is repeated by the client. What cannot be mended so is an error, after which there is nothing more: who
//! wants to go on later begins anew with [`Resume`]. What becomes of records is the caller's business.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use sopan_core::headers::redact_url;
pub use sopan_core::pages::detect::Found;
pub use sopan_core::pages::total::Total;
pub use sopan_core::pages::{Paging, Place, Pointer, PointerError, Select, SelectError, WalkError};
use sopan_core::pages::{Reply, Rules, Step, Walk, detect};
use tokio::task::JoinHandle;
pub use url::Url;

use crate::client::{ApiClient, Fetched, Kind};
use crate::error::Error;

/// What a collection is like, as far as that is known, and how it is read.
#[derive(Debug, Clone, Default)]
pub struct PagesSettings {
    /// How its pages follow each other; none: the first page tells.
    pub paging: Option<Paging>,
    /// Where a page says whether there are more; `false` there is the end, whatever else it says. None: what the first page
    /// has, if `paging` is none too.
    pub more: Option<Pointer>,
    /// Other names of the API: links that lead there are followed where the first page was.
    pub hosts: Vec<String>,
    /// Of counted pages one that has fewer records than the first is the last.
    pub short_ends: bool,
    /// Where the records of a page are; none: where lists usually are.
    pub select: Option<Select>,
    /// How many pages may be on their way at once, where pages are counted; none is one.
    pub concurrency: Option<NonZeroUsize>,
    /// The number of the last page that is asked for, whatever it says.
    pub pages_max: Option<u64>,
    /// Where another traversal of the same stood, to go on there.
    pub resume: Option<Resume>,
}

/// Where a traversal stood: what its last [`Page`] said.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The number of the page that comes next.
    pub page: u64,
    /// Where it is; none if there was none.
    pub next: Option<Url>,
    /// [`Page::size`].
    pub size: u64,
    /// The [`Page::digest`] of every page so far.
    pub asked: Vec<u64>,
}

/// A page of a collection.
#[derive(Clone)]
pub struct Page {
    /// The how many-th it is, from 1.
    pub number: u64,
    /// Where it was, as that may be shown.
    pub url: String,
    /// Where the next one is; none after the last. It may hold secrets.
    pub next: Option<Url>,
    /// By what it is known later that the next one was asked for already; none where pages are counted.
    pub digest: Option<u64>,
    /// How many the API counted on the first page.
    pub size: u64,
    /// The fields of the answer.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Where in the body its records are, in their order.
    pub records: Vec<Range<usize>>,
    /// How many there are in all, by what the first page said that came.
    pub total: Total,
    /// How pages follow each other, where the page told that.
    pub found: Option<Found>,
    /// Where its records are, where nobody said that before.
    pub select: Option<Select>,
}

impl Page {
    /// Its records, each as it is written there.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter().map(|range| &self.body[range.clone()])
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({}, {}, {} records)", self.number, self.url, self.records.len())
    }
}

/// Why there is no page, or nothing after one.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// It could not be had.
    #[error("page {page}: {error}")]
    Failed {
        /// Its number.
        page: u64,
        /// Why.
        error: Error,
    },
    /// It is something else than a page of this collection.
    #[error("page {page}, from {url}, cannot be read: {why}")]
    Unreadable {
        /// Its number.
        page: u64,
        /// Where it was, as that may be shown.
        url: String,
        /// Why.
        why: SelectError,
    },
    /// It is not known which list of it holds the records.
    #[error(
        "page {page}, from {url}, has no list, or several that might hold the records: say where they are, such as `/data/items`"
    )]
    NoRecords {
        /// Its number.
        page: u64,
        /// Where it was, as that may be shown.
        url: String,
    },
    /// It came, but nobody can tell what follows it.
    #[error("{why}")]
    Astray {
        /// Why.
        why: WalkError,
        /// What came. It has no next page, but that is not the end: who keeps its records has to keep in mind that the
        /// collection is not whole.
        page: Box<Page>,
    },
    /// It is at the API, but not beneath the address of this client.
    #[error("page {page} would be at {url}, which is not beneath {base}: begin with a shorter address of the API")]
    Outside {
        /// Its number.
        page: u64,
        /// Where it would be, as that may be shown.
        url: String,
        /// The address of the client.
        base: String,
    },
}

/// What can be done about it: run it again later, or mend something first.
impl From<PageError> for Error {
    fn from(error: PageError) -> Self {
        let message = error.to_string();
        match error {
            PageError::Failed { error: Self::Transient { status, .. }, .. } => Self::Transient { message, status },
            PageError::Failed { error: Self::Permanent { status, .. }, .. } => Self::Permanent { message, status },
            _ => Self::permanent(message),
        }
    }
}

/// The pages of a collection, one after the other: a stream that ends after an error. Dropped, it asks for nothing more.
#[must_use = "no page is asked for before it is wanted"]
pub struct Pages {
    api: ApiClient,
    settings: PagesSettings,
    /// None when it is over.
    walk: Option<Walk>,
    /// Whether the next page will tell how they follow each other.
    is_unknown: bool,
    /// What to answer first, where it cannot even begin.
    wrong: Option<PageError>,
    /// What is asked for: the page whose turn it is, and those after it.
    under_way: VecDeque<UnderWay>,
    /// By what the first page said that came.
    total: Option<Total>,
}

/// A page that is asked for.
struct UnderWay {
    url: Url,
    task: JoinHandle<Result<Fetched, Error>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pages {
    pub(crate) fn new(api: ApiClient, path: &str, settings: PagesSettings) -> Self {
        let is_unknown = settings.paging.is_none();
        let mut pages =
            Self { api, settings, walk: None, is_unknown, wrong: None, under_way: VecDeque::new(), total: None };
        match pages.api.url(path) {
            // What it is like is found out from its first page, which is the same whatever that says.
            Ok(first) => pages.walk = Some(pages.walk_from(first, None)),
            Err(error) => pages.wrong = Some(PageError::Failed { page: 1, error }),
        }
        pages
    }

    /// The next page, when it has come; none when there is none. May be dropped: what is under way stays so.
    pub async fn next(&mut self) -> Option<Result<Page, PageError>> {
        poll_fn(|cx| self.poll_page(cx)).await
    }

    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page, PageError>>> {
        if let Some(error) = self.wrong.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some((number, url)) = self.now() else {
            self.stop();
            return Poll::Ready(None);
        };
        if let Err(error) = self.ask(number, &url) {
            self.stop();
            return Poll::Ready(Some(Err(error)));
        }
        let Some(first) = self.under_way.front_mut() else { return Poll::Ready(None) };
        let came = ready!(Pin::new(&mut first.task).poll(cx));
        self.under_way.pop_front();
        let page = match came {
            Ok(Ok(fetched)) => self.take(number, &url, fetched),
            Ok(Err(error)) => Err(PageError::Failed { page: number, error }),
            Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
            Err(_) => {
                let message = "it was given up, since the program ends".to_owned();
                Err(PageError::Failed { page: number, error: Error::Transient { message, status: None } })
            }
        };
        if page.is_err() {
            self.stop();
        }
        Poll::Ready(Some(page))
    }

    /// The page whose turn it is.
    fn now(&self) -> Option<(u64, Url)> {
        let (number, url) = self.walk.as_ref()?.now()?;
        self.settings.pages_max.is_none_or(|max| number <= max).then(|| (number, url.clone()))
    }

    fn stop(&mut self) {
        self.walk = None;
        self.under_way.clear();
    }

    /// Asks for the page at `url`, if that is not under way, and for those after it that may be.
    fn ask(&mut self, number: u64, url: &Url) -> Result<(), PageError> {
        // A page that is shorter than the first moves all that follow it.
        if self.under_way.front().is_some_and(|first| first.url != *url) {
            self.under_way.clear();
        }
        // One page must have come before it is known whether there are more.
        let places = self.settings.concurrency.filter(|_| self.total.is_some()).map_or(1, NonZeroUsize::get);
        while self.under_way.len() < places {
            let ahead = self.under_way.len() as u64;
            let next = self.walk.as_ref().and_then(|walk| walk.ahead(ahead));
            let Some(next) = next.filter(|next| ahead == 0 || self.is_expected(number + ahead, next)) else { break };
            let page = number + ahead;
            let path = self.api.path(&next).map_err(|base| PageError::Outside {
                page,
                url: redact_url(next.as_str()),
                base,
            })?;
            let api = self.api.clone();
            let task = tokio::spawn(async move { api.fetch(&path, Kind::Json).await });
            self.under_way.push_back(UnderWay { url: next, task });
        }
        Ok(())
    }

    /// Whether there is such a page, by what is known of how many there are. To ask for one in vain is only impolite.
    fn is_expected(&self, number: u64, url: &Url) -> bool {
        let is_wanted = self.settings.pages_max.is_none_or(|max| number <= max);
        let (Some(walk), Some(total)) = (&self.walk, &self.total) else { return is_wanted };
        let count = |param: &str| {
            url.query_pairs().find(|(name, _)| name == param).and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let is_there = match &walk.rules().paging {
            // Pages that are counted from 0 are one more.
            Paging::Number { param } => {
                total.pages.zip(count(param)).is_none_or(|(pages, page)| page <= pages && number <= pages)
            }
            Paging::Offset { param } => {
                total.records.zip(count(param)).is_none_or(|(records, before)| before < records)
            }
            _ => true,
        };
        is_wanted && is_there
    }

    /// Makes a page of what came for it.
    fn take(&mut self, number: u64, url: &Url, fetched: Fetched) -> Result<Page, PageError> {
        let Fetched { headers, body, .. } = fetched;
        let shown = redact_url(url.as_str());
        let unreadable = |why| PageError::Unreadable { page: number, url: shown.clone(), why };
        let not_json = |e: serde_json::Error| unreadable(SelectError::NotJson(e.to_string()));
        let mut found_select = None;
        if self.settings.select.is_none() {
            let select = detect::records(&body).map_err(not_json)?;
            let none = || PageError::NoRecords { page: number, url: shown.clone() };
            found_select = Some(select.ok_or_else(none)?);
            self.settings.select.clone_from(&found_select);
        }
        let Some(select) = &self.settings.select else {
            return Err(PageError::NoRecords { page: number, url: shown });
        };
        let records = select.records(&body).map_err(unreadable)?;
        let count = select.count(&body, records.len());
        let mut found = None;
        if self.is_unknown {
            let paging = detect::paging(url, &headers, &body, &records).map_err(not_json)?;
            found = Some(paging);
            self.is_unknown = false;
        }
        if let (Some(found), Some(walk)) = (&found, &self.walk) {
            self.walk = Some(self.walk_from(walk.first().clone(), Some(found)));
        }
        let Some(walk) = &mut self.walk else { return Err(PageError::NoRecords { page: number, url: shown }) };
        let paging = &walk.rules().paging;
        let total = *self.total.get_or_insert_with(|| Total::of(url, &headers, &body, count, paging));
        let step = walk.came(&Reply { headers: &headers, body: &body, records: &records, count });
        let next = walk.now().map(|(_, next)| next.clone()).filter(|_| step == Ok(Step::Next));
        let digest = walk.digest().filter(|_| next.is_some());
        let size = walk.size();
        let records = records.iter().map(|record| range_in(&body, record)).collect();
        let page =
            Page { number, url: shown, next, digest, size, headers, body, records, total, found, select: found_select };
        match step {
            Ok(_) => Ok(page),
            Err(why) => Err(PageError::Astray { why, page: Box::new(page) }),
        }
    }

    /// The traversal that begins at `first`, or goes on where it stood, by what is known of it.
    fn walk_from(&self, first: Url, found: Option<&Found>) -> Walk {
        let PagesSettings { paging, more, hosts, short_ends, resume, .. } = &self.settings;
        let paging = paging.clone().or_else(|| found.map(|found| found.paging.clone())).unwrap_or(Paging::Single);
        let more = more.clone().or_else(|| found.and_then(|found| found.more.clone()));
        let mut walk = Walk::new(first, Rules { paging, more, hosts: hosts.clone(), short_ends: *short_ends });
        if let Some(Resume { page, next, size, asked }) = resume {
            walk.resume(*page, next.clone(), *size, asked.iter().copied());
        }
        walk
    }
}

/// Where in the body that it was read from a record is.
fn range_in(body: &[u8], record: &RawValue) -> Range<usize> {
    let text = record.get();
    let from = text.as_ptr().addr() - body.as_ptr().addr();
    from..from + text.len()
}

impl futures_core::Stream for Pages {
    type Item = Result<Page, PageError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_page(cx)
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({:?}, {} under way)", self.api, self.under_way.len())
    }
}
