//! What does a well-known API look like to who reads its collections: paths, paging, names, limits and their fields, errors?
//!
//! After the vendors' references, as far as a client that pages meets it; the records are the shop's orders under the names of
//! the vendor. Each has a module: its answers, its fields, its form of an error. Limits are counted, and faults made, by the API.

mod github;
mod gitlab;
mod notion;
mod odata;
mod shopify;
mod slack;
mod stripe;

use std::time::Duration;

use http::HeaderName;
use serde_json::Value;

use crate::limits::{Limit, Standing, Window};
use crate::orders::{Order, Shop};
use crate::query::Asked;
use crate::reply::Reply;

/// A vendor whose API is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `/repos/OWNER/NAME/issues`: `Link`, pages numbered.
    Github,
    /// `/api/v4/projects/ID/issues`: `Link`, `X-Next-Page` and totals in fields.
    Gitlab,
    /// `/v1/charges`: `has_more`, after the id of the last one.
    Stripe,
    /// `/admin/api/VERSION/orders.json`: `Link` with a cursor that takes no other filter along.
    Shopify,
    /// `/api/conversations.history`: a cursor in the body, and errors with status 200.
    Slack,
    /// `/v1/users`: a cursor in the body, which another name takes.
    Notion,
    /// `/odata/v4/Orders`: `@odata.nextLink`.
    Odata,
}

/// Why an answer is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The limits refuse it.
    Limited,
    /// Something broke.
    Failed,
    /// Who asks did not say who that is.
    Nobody,
    /// A parameter cannot be meant.
    Asked,
}

/// What a vendor does until it is told otherwise.
#[derive(Debug)]
pub struct Defaults {
    /// How much it allows.
    pub limit: Limit,
    /// How it counts that.
    pub window: Window,
    /// How many records a page holds when the request does not say.
    pub page_size: u64,
}

impl Profile {
    /// Every vendor, with its name in settings and on command lines.
    pub const ALL: [(&'static str, Self); 7] = [
        ("github", Self::Github),
        ("gitlab", Self::Gitlab),
        ("stripe", Self::Stripe),
        ("shopify", Self::Shopify),
        ("slack", Self::Slack),
        ("notion", Self::Notion),
        ("odata", Self::Odata),
    ];

    /// What the vendor allows and gives by itself.
    pub fn defaults(self) -> Defaults {
        let quota = |count, seconds| Limit::Quota { count, span: Duration::from_secs(seconds) };
        let rate = |tokens, burst| Limit::Rate { tokens, per: Duration::from_secs(1), burst };
        let (limit, window, page_size) = match self {
            Self::Github => (quota(5000, 3600), Window::Fixed, 30),
            Self::Gitlab => (quota(2000, 60), Window::Fixed, 20),
            Self::Stripe => (quota(100, 1), Window::Sliding, 10),
            Self::Shopify => (rate(2, 40), Window::Bucket, 50),
            Self::Slack => (quota(50, 60), Window::Sliding, 100),
            // An average of three a second with "some bursts" above it.
            Self::Notion => (rate(3, 10), Window::Bucket, 100),
            Self::Odata => (quota(10_000, 600), Window::Sliding, 100),
        };
        Defaults { limit, window, page_size }
    }

    /// What it answers to a GET; none where it has no such path.
    pub(crate) fn answer(self, asked: &Asked<'_>, shop: &Shop, page_size: u64) -> Option<Reply> {
        let answer = match self {
            Self::Github => github::answer,
            Self::Gitlab => gitlab::answer,
            Self::Stripe => stripe::answer,
            Self::Shopify => shopify::answer,
            Self::Slack => slack::answer,
            Self::Notion => notion::answer,
            Self::Odata => odata::answer,
        };
        Some(answer(asked, shop, page_size)?.unwrap_or_else(|wrong| self.error(wrong)))
    }

    pub(crate) fn error(self, wrong: Wrong) -> Reply {
        match self {
            Self::Github => github::error(wrong),
            Self::Gitlab => gitlab::error(wrong),
            Self::Stripe => stripe::error(wrong),
            Self::Shopify => shopify::error(wrong),
            Self::Slack => slack::error(wrong),
            Self::Notion => notion::error(wrong),
            Self::Odata => odata::error(wrong),
        }
    }

    /// What each answer tells of the limit, at `now` seconds since the Unix epoch.
    pub(crate) fn fields(self, standing: Standing, now: u64) -> Vec<(HeaderName, String)> {
        let told = match self {
            Self::Github => github::fields(standing, now),
            Self::Gitlab => gitlab::fields(standing, now),
            Self::Shopify => shopify::fields(standing),
            Self::Odata => odata::fields(standing),
            // They tell nothing before it is too much.
            Self::Stripe | Self::Slack | Self::Notion => Vec::new(),
        };
        told.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect()
    }

    /// The seconds of `Retry-After` as it writes them.
    pub(crate) fn seconds(self, seconds: u64) -> String {
        if self == Self::Shopify { format!("{seconds}.0") } else { seconds.to_string() }
    }
}

/// An answer, or why it is an error; none where there is no such path.
type Answer = Option<Result<Reply, Wrong>>;

/// A name and its value of what is told of a limit.
type Field = (&'static str, String);

fn list(orders: &[Order], record: impl Fn(&Order) -> Value) -> Vec<Value> {
    orders.iter().map(record).collect()
}

/// Whole seconds until then, rounded up.
fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

fn epoch(order: &Order) -> u64 {
    order.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}
