//! Settings of the fake API.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use sopan_core::hints::{Reader, http_date};
use sopan_core::policy::{Limit, LimitError, parse_duration};
use sopan_fake::{Cut, Etag, Profile, RetryAfter, Settings, Window};

use super::Wrong;
use super::read::{Check, address, one_of, or_word, whole};
use crate::cli;

/// What `sopan fake-api` does.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    pub(crate) listen: SocketAddr,
    pub(crate) settings: Settings,
}

/// What was typed, checked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn fake(typed: &cli::FakeApi) -> Result<Fake, Wrong> {
    let mut check = Check::default();
    let listen = check.read("--listen", &typed.listen, address);
    let profile = typed.profile.as_ref().and_then(|name| check.read("--profile", name, one_of(Profile::ALL)));
    let mut settings = Settings { profile, ..Settings::default() };
    if let Some(vendor) = settings.profile.map(Profile::defaults) {
        settings.limits = vec![vendor.limit];
        settings.window = vendor.window;
        settings.page_size = vendor.page_size;
    }
    let any = || whole(0..=u64::MAX);
    check.set(&mut settings.rate_limit_first, "--rate-limit-first", &typed.rate_limit_first, any());
    check.set(&mut settings.fail_first, "--fail-first", &typed.fail_first, any());
    limits(&mut check, &typed.limits, &mut settings);
    faults(&mut check, &typed.faults, &mut settings);
    data(&mut check, &typed.data, &mut settings);
    check.finish(listen.map(|listen| Fake { listen, settings }))
}

fn limits(check: &mut Check, typed: &cli::FakeLimits, settings: &mut Settings) {
    if !typed.limit.is_empty() {
        let limits = typed.limit.iter().filter_map(|limit| check.read("--limit", limit, countable));
        settings.limits = limits.collect();
    }
    if let Some(window) = &typed.window {
        check.set(&mut settings.window, "--window", window, one_of(Window::ALL));
    }
    check.set(&mut settings.retry_after, "--retry-after", &typed.retry_after, one_of(RetryAfter::ALL));
    check.set(&mut settings.etag, "--etag", &typed.etag, one_of(Etag::ALL));
}

fn faults(check: &mut Check, typed: &cli::FakeFaults, settings: &mut Settings) {
    let any = || whole(0..=u64::MAX);
    check.set(&mut settings.delay, "--delay", &typed.delay, parse_duration);
    check.set(&mut settings.delay_jitter, "--delay-jitter", &typed.delay_jitter, parse_duration);
    check.set(&mut settings.seed, "--seed", &typed.seed, any());
    let before = &typed.drop_before_head_first;
    check.set(&mut settings.drop_before_head_first, "--drop-before-head-first", before, any());
    check.set(&mut settings.drop_in_head_first, "--drop-in-head-first", &typed.drop_in_head_first, any());
    check.set(&mut settings.drop_after_head_first, "--drop-after-head-first", &typed.drop_after_head_first, any());
    check.set(&mut settings.truncate_first, "--truncate-first", &typed.truncate_first, any());
    check.set(&mut settings.faults_after, "--faults-after", &typed.faults_after, any());
    check.set(&mut settings.slow_first, "--slow-first", &typed.slow_first, any());
    check.set(&mut settings.slow, "--slow", &typed.slow, parse_duration);
    check.set(&mut settings.cut, "--cut", &typed.cut, one_of(Cut::ALL));
}

fn data(check: &mut Check, typed: &cli::FakeData, settings: &mut Settings) {
    /// A hundred million entries would take 13 GB.
    const LOG_ENTRIES_MAX: u64 = 100_000_000;
    check.set(&mut settings.orders_total, "--orders-total", &typed.orders_total, whole(0..=u64::from(u32::MAX)));
    if let Some(size) = &typed.page_size {
        check.set(&mut settings.page_size, "--page-size", size, whole(1..=sopan_fake::PAGE_SIZE_MAX));
    }
    let entries = |text: &str| whole(0..=LOG_ENTRIES_MAX)(text).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    check.set(&mut settings.log_entries_max, "--log-entries-max", &typed.log_entries_max, entries);
    check.set(&mut settings.wall_start, "--wall-start", &typed.wall_start, or_word("now", date));
}

fn date(text: &str) -> Result<SystemTime, String> {
    let seconds = http_date::parse(text.as_bytes(), SystemTime::now(), Reader::Strict);
    let date = seconds.and_then(|s| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(s).ok()?)));
    date.ok_or_else(|| format!("`{text}` is not a date since 1970; write for example Wed, 21 Oct 2026 12:00:00 GMT"))
}

fn countable(text: &str) -> Result<sopan_fake::Limit, String> {
    let limit: Limit = text.parse().map_err(|e: LimitError| e.to_string())?;
    as_the_fake_counts(&limit).ok_or_else(|| {
        format!("`{limit}` is not counted here, since the fake API knows no calendar; write for example 10000 per 24h")
    })
}

/// A limit in the numbers of the fake, which knows no grammar. Its windows begin anew after whole units as they were written,
/// so `10/s` is ten in a second there, not one in a tenth. It counts no days of the calendar.
fn as_the_fake_counts(limit: &Limit) -> Option<sopan_fake::Limit> {
    Some(match limit {
        Limit::Calendar(_) => return None,
        Limit::Quota(quota) => sopan_fake::Limit::Quota { count: quota.count(), span: quota.span() },
        Limit::Rate(rate) => {
            let (tokens, period) = rate.fraction();
            let units = least_common_multiple(rate.unit(), period);
            let scaled = u64::try_from(u128::from(tokens) * (units / period));
            let (tokens, per) = scaled.map_or((tokens, period), |tokens| (tokens, units));
            sopan_fake::Limit::Rate { tokens, per: Duration::from_nanos_u128(per), burst: rate.burst() }
        }
    })
}

fn least_common_multiple(a: u128, b: u128) -> u128 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
