//! How long would it take to get a collection, and would it be there in time?
//!
//! The first page is asked for once, and says how many there are; how long that many take is played by the limits
//! (`sopan_core::pages::plan`). Nothing is kept.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use sopan_core::calendar::Daybreak;
use sopan_core::pages::Paging;
use sopan_core::pages::plan::Pace;
use sopan_engine::clock::Clock;
use sopan_engine::pages::{Page, PagesSettings};
use tokio::runtime;

use super::Failure;
use super::run::client;
use super::telling::Seconds;
use super::traversal::failure_of;
use crate::config;
use crate::log::{Counted, Stamp};

/// What is told of a plan, and whether all of it would be there in time.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) out: String,
    pub(crate) is_in_time: bool,
}

/// Plans them all, one after the other.
///
/// # Errors
/// A first page that cannot be had, or is none.
pub(crate) fn plan(mut settings: config::Jobs, by: Option<&Daybreak>) -> Result<Told, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Transient(format!("no runtime: {error}")))?;
    // It asks once.
    settings.upstreams.iter_mut().for_each(|upstream| upstream.retry.max_retries = 0);
    let (mut out, mut is_in_time) = (String::new(), true);
    let done = runtime.block_on(async {
        for job in &settings.jobs {
            let told = one(&settings, job, by).await.map_err(|failure| failure.of(&job.name))?;
            if !job.name.is_empty() {
                let _ = writeln!(out, "{}:", job.name);
            }
            out += &told.out;
            is_in_time &= told.is_in_time;
        }
        Ok(())
    });
    runtime.shutdown_background();
    done.map(|()| Told { out, is_in_time })
}

async fn one(settings: &config::Jobs, job: &config::Job, by: Option<&Daybreak>) -> Result<Told, Failure> {
    let (api, _) = client(settings, job.upstream, None)?;
    let mut headers = settings.headers.clone();
    headers.extend(job.headers.clone());
    let clock = Clock::system();
    let begun = clock.now();
    let pages = PagesSettings {
        paging: job.paging.clone(),
        more: job.more.clone(),
        hosts: job.link_hosts.clone(),
        select: job.select.clone(),
        pages_max: Some(1),
        ..PagesSettings::default()
    };
    let mut pages = api.with_headers(headers).pages(&job.path, pages);
    let page = match pages.next().await {
        Some(Ok(page)) => page,
        Some(Err(error)) => return Err(failure_of(&error)),
        None => return Err(Failure::Data("there is no first page".to_owned())),
    };
    let each = clock.now().since(begun);
    let lane = &settings.upstreams[job.upstream].lane;
    let pace = Pace {
        limits: &lane.limits,
        headroom: lane.headroom,
        margin: lane.rate_margin,
        each,
        at_once: u32::try_from(job.concurrency.get()).unwrap_or(1),
        begin: clock.wall(),
    };
    Ok(in_words(job, &page, &pace, by))
}

fn in_words(job: &config::Job, page: &Page, pace: &Pace<'_>, by: Option<&Daybreak>) -> Told {
    let mut out = String::new();
    let (records, pages) = (page.total.records, pages_of(job, page));
    let limits: Vec<_> = pace.limits.iter().map(ToString::to_string).collect();
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    let Some((pages, requests)) = pages else {
        let _ = writeln!(
            out,
            "the first page has {}, and does not say how many there are in all",
            Counted(page.size, "record")
        );
        for pages in [100, 1000, 10_000] {
            if let Some(took) = pace.takes(pages) {
                let _ = writeln!(out, "{pages} such pages take {} by {limits}", Seconds(took));
            }
        }
        let is_in_time = by.is_none();
        if !is_in_time {
            let _ = writeln!(
                out,
                "so nobody can tell whether they are there in time; bound them with --records-max or --pages-max"
            );
        }
        return Told { out, is_in_time };
    };
    let of = records.map_or_else(String::new, |records| format!("{} on ", Counted(records, "record")));
    let _ = writeln!(out, "{of}{}, {} on the first, as that says", Counted(pages, "page"), page.size);
    let Some(took) = pace.takes(requests) else {
        let never = if requests == 1 { "never ends" } else { "never end" };
        let _ = writeln!(out, "{} {never} by {limits}", Counted(requests, "request"));
        return Told { out, is_in_time: by.is_none() };
    };
    let end = pace.begin + took;
    let _ = writeln!(
        out,
        "{} {} {} by {limits}, one answered in {}",
        Counted(requests, "request"),
        if requests == 1 { "takes" } else { "take" },
        Seconds(took),
        Seconds(pace.each)
    );
    let _ = writeln!(out, "begun now, it is done at {}", Stamp(end));
    let Some(by) = by else { return Told { out, is_in_time: true } };
    let (told, is_in_time) = in_time(by.day(pace.begin).end, end);
    let _ = writeln!(out, "{told} {by}");
    Told { out, is_in_time }
}

/// Pages that are there, and requests that get them; none where that is not known.
fn pages_of(job: &config::Job, page: &Page) -> Option<(u64, u64)> {
    let per_page = page.size.max(1);
    let wanted = job.records_max.map(|records| records.div_ceil(per_page)).into_iter().chain(job.pages_max).min();
    let paging = job.paging.as_ref().or(page.found.as_ref().map(|found| &found.paging));
    let known = if page.next.is_none() { Some(1) } else { page.total.pages };
    let pages = known.into_iter().chain(wanted).min()?;
    // The end of what is counted is an empty page, unless something else ends it before.
    let is_counted = matches!(paging, Some(Paging::Number { .. } | Paging::Offset { .. }));
    let is_cut = wanted.is_some_and(|wanted| known.is_none_or(|known| wanted <= known));
    let is_full = page.total.records.is_none_or(|records| records % per_page == 0);
    let ends_empty = is_counted && !is_cut && page.next.is_some() && (!job.short_page_ends || is_full);
    Some((pages, pages + u64::from(ends_empty)))
}

/// Whether it fits, in words.
fn in_time(by: SystemTime, end: SystemTime) -> (String, bool) {
    match by.duration_since(end) {
        Ok(spare) => (format!("that is {} before", Seconds(spare)), true),
        Err(late) => {
            let late: Duration = late.duration();
            (format!("that is {} too late for", Seconds(late)), false)
        }
    }
}
