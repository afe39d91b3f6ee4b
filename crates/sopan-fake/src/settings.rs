//! Everything a fake API can be told to be.

use std::time::{Duration, SystemTime};

use crate::etag::Etag;
use crate::limits::{Limit, Window};
use crate::profile::Profile;

/// How the fake API behaves. The default one has no limits and no faults.
///
/// Where several things are asked for, the first requests meet them in this order: the planned 429s, the planned 500s,
/// then the connections dropped before, within and after the response head, then the truncated bodies, then the slow ones. All
/// are counted over the whole server, in order of arrival, after as many as [`Settings::faults_after`] spares.
///
/// A planned 429 costs nothing and a planned 500 costs its token where there is one, as work done does; neither is
/// changed by the limits. Every later request is asked of the limits first, and one that they refuse uses up no fault.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whose API it plays beside its own. What that vendor allows is not set by it, see [`Profile::defaults`].
    pub profile: Option<Profile>,
    /// So many requests meet nothing that is planned; with it faults come in the middle of what is read.
    pub faults_after: u64,
    /// So many requests get 429 with a wait of one second.
    pub rate_limit_first: u64,
    /// So many requests get 500.
    pub fail_first: u64,
    /// What the API allows; all limits are taken together or not at all. A request costs 1. No number may be zero.
    pub limits: Vec<Limit>,
    /// How it counts that.
    pub window: Window,
    /// How a 429 says when to come again.
    pub retry_after: RetryAfter,
    /// Whether answers to GET have an `ETag`, and what it costs to ask whether one is still good.
    pub etag: Etag,
    /// Every answer waits so long after its request is in.
    pub delay: Duration,
    /// And up to so much longer, evenly spread.
    pub delay_jitter: Duration,
    /// Where the jitter's dice start: equal seeds and equal arrivals give equal delays.
    pub seed: u64,
    /// So many connections are cut when the request has been served and nothing of the answer is sent.
    pub drop_before_head_first: u64,
    /// So many are cut within the response head.
    pub drop_in_head_first: u64,
    /// So many are cut after the response head, before its body.
    pub drop_after_head_first: u64,
    /// So many are cut when half of the body that `Content-Length` promised is sent.
    pub truncate_first: u64,
    /// So many bodies come in two halves.
    pub slow_first: u64,
    /// So long apart.
    pub slow: Duration,
    /// How connections are cut.
    pub cut: Cut,
    /// How many orders there are before anybody creates one.
    pub orders_total: u64,
    /// How many orders a page holds when the request does not say.
    pub page_size: u64,
    /// How many requests the log remembers; the oldest go first. A million take about 130 MB.
    pub log_entries_max: usize,
    /// What the wall clock shows at the start; none reads the machine's. It moves on with tokio's clock from there.
    pub wall_start: Option<SystemTime>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: None,
            faults_after: 0,
            rate_limit_first: 0,
            fail_first: 0,
            limits: Vec::new(),
            window: Window::default(),
            retry_after: RetryAfter::default(),
            etag: Etag::default(),
            delay: Duration::ZERO,
            delay_jitter: Duration::ZERO,
            seed: 0,
            drop_before_head_first: 0,
            drop_in_head_first: 0,
            drop_after_head_first: 0,
            truncate_first: 0,
            slow_first: 0,
            slow: Duration::from_secs(2),
            cut: Cut::default(),
            // Three pages, the last one short: enough for a traversal to meet its first, a middle and its last page.
            orders_total: 120,
            page_size: 50,
            log_entries_max: 1_000_000,
            wall_start: None,
        }
    }
}

/// The form of `Retry-After` on a refusal. Every readable form is rounded up, so that nobody who obeys comes too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryAfter {
    /// `1`
    #[default]
    Seconds,
    /// `Wed, 21 Oct 2026 12:01:30 GMT`
    Imf,
    /// `Wednesday, 21-Oct-26 12:01:30 GMT`
    Rfc850,
    /// `Wed Oct 21 12:01:30 2026`
    Asctime,
    /// No such field.
    None,
    /// A field that says nothing.
    Garbage,
}

impl RetryAfter {
    /// Every form, with its name in settings and on command lines.
    pub const ALL: [(&'static str, Self); 6] = [
        ("seconds", Self::Seconds),
        ("imf", Self::Imf),
        ("rfc850", Self::Rfc850),
        ("asctime", Self::Asctime),
        ("none", Self::None),
        ("garbage", Self::Garbage),
    ];
}

/// How a connection ends that is cut on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// With FIN, as if all had been said.
    #[default]
    Close,
    /// With RST, as if the machine had crashed. In-process connections know no RST: they are just dropped.
    Reset,
}

impl Cut {
    /// Both ways, with their names in settings and on command lines.
    pub const ALL: [(&'static str, Self); 2] = [("close", Self::Close), ("reset", Self::Reset)];
}
