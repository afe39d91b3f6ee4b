//! What becomes of one collection, from its first page to its output?
//!
//! One straight line: what is kept of a run before is opened; page after page comes, is put on file and with it where the
//! traversal stands, and only then is the next one asked for; after the last one the output is made. Whatever ends it in between,
//! the next run goes on there. To standard output nothing is kept, and pages go out as they come.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sopan_core::headers::Parameter;
use sopan_core::pages::plan::Pace;
use sopan_core::pages::shape::Shape;
use sopan_core::pages::since::Mark;
use sopan_core::pages::{Paging, Pointer, Select};
use sopan_engine::pages::{Page, PageError, PagesSettings, Resume, SelectError, Url, WalkError};
use sopan_engine::{ApiClient, Error};
use tokio::sync::watch;
use tokio::task;

use super::Failure;
use super::kept::{Kept, KeptError, Place};
use super::records::{Records, Written};
use super::schema::Schema;
use super::sinks::{Done, Progress, Sink, SinkError};
use super::stand::{JobDigest, Past, SCHEMA_SAYS, Stand};
use super::tally::{Counts, Tally};
use super::telling::{Far, Teller};
use crate::config;
use crate::log::Counted;

/// Whether nothing more is wanted.
#[derive(Debug, Clone)]
pub(super) struct Stop(pub(super) watch::Receiver<bool>);

impl Stop {
    /// Waits until it is so.
    async fn asked(&self) {
        if self.0.clone().wait_for(|stop| *stop).await.is_err() {
            // Nobody can ask for it any more.
            std::future::pending().await
        }
    }
}

/// A job, and all that it takes.
pub(super) struct Context<'a> {
    pub(super) job: &'a config::Job,
    pub(super) settings: &'a config::Jobs,
    pub(super) api: ApiClient,
    pub(super) tally: Arc<Tally>,
    pub(super) teller: &'a Teller,
    pub(super) stop: Stop,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    pub(super) pages: u64,
    pub(super) records: u64,
    pub(super) rejects: Rejects,
    /// What became of records that do not follow the schema.
    pub(super) mismatches: Option<String>,
    /// None for standard output.
    pub(super) out: Option<PathBuf>,
    pub(super) bytes: u64,
    pub(super) counts: Counts,
    pub(super) took: Duration,
}

/// Records that were set aside.
#[derive(Debug, Clone, Default)]
pub(super) struct Rejects {
    pub(super) count: u64,
    pub(super) file: Option<PathBuf>,
}

/// Where pages go.
enum Output {
    File { kept: Box<Kept>, sink: Sink },
    Standard,
}

impl Context<'_> {
    /// Gets it.
    ///
    /// # Errors
    /// What was kept of it is there still, and the next run goes on there.
    pub(super) async fn traverse(&self) -> Result<Summary, Failure> {
        let (begun, before) = (self.teller.now(), self.tally.counts());
        self.teller.begins(self);
        let schema = self.job.schema.as_ref().map(|path| Schema::read(path)).transpose().map_err(Failure::Settings)?;
        let (mut output, stand) = self.open(schema.as_ref())?;
        let past = output.past();
        let resumed = stand.is_some();
        let mut stand = stand.unwrap_or_default();
        let mut records = Records::new(self.job, schema);
        if matches!(output, Output::File { .. }) || self.settings.infer_schema.is_some() {
            records.look(stand.shape.as_deref());
        }
        let since = past.as_ref().and_then(|past| past.mark.as_deref());
        records.reaches(stand.mark.as_deref().or(since));
        let path = self.path(since)?;
        self.not_over_what_is_new(&output, past.as_ref(), resumed)?;
        if !resumed || stand.next.is_some() {
            self.pages(&path, &mut output, &mut stand, &mut records, resumed)
                .await
                .map_err(|failure| self.with_what_is_kept(failure, &output, &stand))?;
        }
        let done = match output {
            Output::File { kept, sink } => Some(self.make(*kept, sink).await?),
            Output::Standard => None,
        };
        self.drift(&records, past.as_ref());
        self.propose(&records)?;
        Ok(Summary {
            mismatches: records.mismatches(),
            pages: stand.page,
            records: stand.records,
            rejects: Rejects { count: stand.rejects, file: done.as_ref().and_then(|done| done.rejects.clone()) },
            bytes: done.as_ref().map_or(0, |done| done.bytes),
            out: done.map(|done| done.out),
            counts: self.tally.counts().since(&before),
            took: self.teller.now().since(begun),
        })
    }

    /// What is kept of a run before, and where that stands.
    fn open(&self, schema: Option<&Schema>) -> Result<(Output, Option<Stand>), Failure> {
        let Some((out, sink)) = &self.job.out else { return Ok((Output::Standard, None)) };
        let mut said = self.job.said.clone();
        said.extend(schema.map(|schema| (SCHEMA_SAYS.to_owned(), schema.digest.clone())));
        let place = Place { out: out.clone(), job: JobDigest(said) };
        let (kept, stand) = Kept::open(&place, self.settings.restart).map_err(|error| unusable(&error))?;
        Ok((Output::File { kept: Box::new(kept), sink: sink.clone() }, stand))
    }

    /// Gets page after page.
    async fn pages(
        &self,
        path: &str,
        output: &mut Output,
        stand: &mut Stand,
        records: &mut Records<'_>,
        resumed: bool,
    ) -> Result<(), Failure> {
        let settings = self.page_settings(output, stand, resumed)?;
        if resumed {
            self.teller
                .note(self, &format!("going on after page {}, with {}", stand.page, Counted(stand.records, "record")));
        }
        let mut pages = self.api.pages(path, settings);
        let (begun, before, first) = (self.teller.now(), self.tally.counts(), stand.clone());
        let mut by_limits = None;
        let mut written = Written::default();
        loop {
            let page = tokio::select! {
                biased;
                () = self.stop.asked() => return Err(Failure::Interrupted(None)),
                page = pages.next() => page,
            };
            let Some(page) = page else { return Ok(()) };
            let (page, astray) = match page {
                Ok(page) => (page, None),
                Err(PageError::Astray { why, page }) => (*page, Some(why)),
                Err(error) => return Err(failure_of(&error)),
            };
            let is_last = self.job.pages_max.is_some_and(|max| page.number >= max);
            let astray = astray.filter(|_| !is_last);
            // To go on there, the page that leads nowhere has to be looked at again.
            if let Some(why) = astray.as_ref().filter(|_| matches!(output, Output::File { .. })) {
                return Err(leads_nowhere(why, page.number));
            }
            let mut after = stand.clone();
            let notes = records.take(&page, &mut after, &mut written)?;
            self.stands(&page, is_last, &mut after);
            let is_more_wanted = write(output, &mut written, &after).await?;
            *stand = after;
            if !is_more_wanted {
                return Ok(());
            }
            notes.iter().for_each(|note| self.teller.note(self, note));
            let pages_in_all = page.total.pages.or(self.job.pages_max);
            // Reckoned once, since it may take a moment: by the limits, from now on.
            let by_limits = *by_limits.get_or_insert_with(|| {
                let left = pages_in_all.map(|pages| pages.saturating_sub(first.page));
                left.and_then(|left| self.pace().takes(left))
            });
            self.teller.page(
                self,
                &Far {
                    pages: stand.page,
                    pages_in_all,
                    records: stand.records,
                    records_in_all: stand.total,
                    elapsed: self.teller.now().since(begun),
                    added: stand.records.saturating_sub(first.records),
                    added_pages: stand.page.saturating_sub(first.page),
                    waited: self.tally.counts().since(&before).waited(),
                    by_limits,
                },
            );
            match astray {
                Some(why) => return Err(leads_nowhere(&why, page.number)),
                None if stand.next.is_none() => {
                    if page.next.is_none() && !is_last {
                        self.told_of_more(stand);
                    }
                    return Ok(());
                }
                None => {}
            }
        }
    }

    /// Tells where the API said that there are more than came: a `--next` that is misspelt looks like the end.
    fn told_of_more(&self, stand: &Stand) {
        let is_chosen = matches!(self.job.select, Some(Select::Path(_))) || self.job.paging == Some(Paging::Single);
        let came = stand.records + stand.rejects;
        if let Some(total) = stand.total.filter(|total| *total > came && !is_chosen) {
            let why = "if nothing has gone meanwhile, see whether --next is right";
            self.teller.note(self, &format!("the API tells of {}, and {came} came; {why}", Counted(total, "record")));
        }
    }

    /// What its requests are held to.
    fn pace(&self) -> Pace<'_> {
        let lane = &self.settings.upstreams[self.job.upstream].lane;
        Pace {
            limits: &lane.limits,
            headroom: lane.headroom,
            margin: lane.rate_margin,
            each: Duration::ZERO,
            at_once: 1,
            begin: self.teller.wall(),
        }
    }

    fn page_settings(&self, output: &Output, stand: &Stand, resumed: bool) -> Result<PagesSettings, Failure> {
        let job = self.job;
        let broken = |what: &str| {
            Failure::Permanent(format!(
                "the state beside the output holds {what} that cannot be read; begin anew with --restart"
            ))
        };
        let way = stand.paging.clone().unwrap_or_default();
        let select =
            way.records.as_ref().map(|text| text.parse().map_err(|_| broken("a place of records"))).transpose()?;
        let paging =
            way.next.as_ref().map(|next| Paging::said(next, way.param.as_deref()).map_err(|_| broken("a paging")));
        let more =
            way.more.as_ref().map(|text| text.parse::<Pointer>().map_err(|_| broken("a pointer"))).transpose()?;
        let resume = match (&stand.next, output) {
            (Some(next), Output::File { kept, .. }) if resumed => Some(Resume {
                page: stand.page + 1,
                next: Some(Url::parse(next).map_err(|_| broken("a URL"))?),
                size: stand.size,
                asked: kept.asked().map_err(|error| unusable(&error))?,
            }),
            _ => None,
        };
        Ok(PagesSettings {
            paging: job.paging.clone().or(paging.transpose()?),
            more: job.more.clone().or(more),
            hosts: job.link_hosts.clone(),
            short_ends: job.short_page_ends,
            select: job.select.clone().or(select),
            concurrency: Some(job.concurrency),
            pages_max: job.pages_max,
            resume,
        })
    }

    /// Where it stands after a page.
    fn stands(&self, page: &Page, is_last: bool, stand: &mut Stand) {
        self.found(page, stand);
        stand.page = page.number;
        let is_full = self.job.records_max.is_some_and(|max| stand.records >= max);
        stand.next = page.next.as_ref().filter(|_| !is_last && !is_full).map(Url::to_string);
        stand.size = page.size;
        stand.asked = page.digest;
        stand.total = page.total.records.or(stand.total);
    }

    /// How pages follow each other, where a page told that: kept, and told, since it may be a wrong guess.
    fn found(&self, page: &Page, stand: &mut Stand) {
        if page.found.is_none() && page.select.is_none() {
            return;
        }
        let way = stand.paging.get_or_insert_default();
        let mut told = Vec::new();
        if let Some(select) = &page.select {
            let text = select.said();
            told.push(format!("records are at {select} (--records '{text}')"));
            way.records = Some(text);
        }
        if let Some(found) = &page.found {
            way.next = Some(found.paging.to_string());
            way.param = found.paging.param().map(str::to_owned);
            way.more = found.more.as_ref().map(Pointer::to_string);
            let param = way.param.as_ref().map_or_else(String::new, |param| format!(" --next-param '{param}'"));
            let more = way.more.as_ref().map_or_else(String::new, |more| format!(" --more '{more}'"));
            told.push(format!("{} (--next '{}'{param}{more})", found.by, found.paging));
        }
        self.teller.note(self, &format!("page {} tells: {}", page.number, told.join("; ")));
    }

    /// What is asked for first: from the mark of the last run on, where that is wanted.
    fn path(&self, since: Option<&str>) -> Result<String, Failure> {
        let path = self.job.path.clone();
        let Some(config::Since { param, from, overlap, .. }) = &self.job.since else { return Ok(path) };
        let Some(mark) = since.or(from.as_deref()).map(|mark| Mark::from(mark.to_owned())) else { return Ok(path) };
        // What was said is meant as it was said.
        let value = match overlap.filter(|_| since.is_some()) {
            None => mark,
            Some(overlap) => mark.less(overlap).ok_or_else(|| {
                let why = "is neither a time nor a number that --since-overlap could be taken from; leave that away";
                Failure::Settings(format!("the high-water mark `{mark}` {why}"))
            })?,
        };
        self.teller.note(self, &format!("asking for what is new since {value}"));
        let parameter = Parameter::new(param);
        let rest = parameter.without(&path).unwrap_or(path);
        Ok(Parameter::with(&rest, &parameter.written(value.to_string().as_bytes())))
    }

    /// What is new would take the place of what was new before, unless that was fetched from there or a key tells them apart.
    fn not_over_what_is_new(&self, output: &Output, past: Option<&Past>, resumed: bool) -> Result<(), Failure> {
        let (Output::File { sink, .. }, Some((out, _)), Some(_)) = (output, &self.job.out, &self.job.since) else {
            return Ok(());
        };
        let is_added = matches!(sink, Sink::Sqlite { key, .. } if !key.is_empty());
        if is_added || resumed || past.is_none_or(|past| past.mark.is_none()) || !out.exists() {
            return Ok(());
        }
        Err(Failure::Permanent(format!(
            "`{}` still holds what the last run got, and this one would put what is new since in its place; move it away when it \
             is used, or write to a .db with --key, to which what is new is added",
            out.display()
        )))
    }

    /// Tells what records are like now and were not.
    fn drift(&self, records: &Records<'_>, past: Option<&Past>) {
        const TOLD_MAX: usize = 20;
        let before = past.and_then(|past| serde_json::from_str::<Shape>(past.shape.as_ref()?).ok());
        let (Some(now), Some(before)) = (records.shape(), before) else { return };
        let drift = now.drift(&before);
        if drift.is_empty() {
            return;
        }
        let told: Vec<_> = drift.iter().take(TOLD_MAX).map(ToString::to_string).collect();
        let more = drift.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        self.teller.note(self, &format!("records have changed since the last run: {}{more}", told.join("; ")));
    }

    /// Writes the schema that records follow.
    fn propose(&self, records: &Records<'_>) -> Result<(), Failure> {
        let (Some(file), Some(shape)) = (&self.settings.infer_schema, records.shape()) else { return Ok(()) };
        let schema = format!("{:#}\n", shape.schema());
        std::fs::write(file, schema)
            .map_err(|error| Failure::Permanent(format!("{} cannot be written: {error}", file.display())))?;
        self.teller.note(self, &format!("proposed a schema in {}", file.display()));
        Ok(())
    }

    /// Makes the output.
    async fn make(&self, kept: Kept, sink: Sink) -> Result<Done, Failure> {
        let progress = Arc::new(Progress::default());
        let of_maker = Arc::clone(&progress);
        let mut making = task::spawn_blocking(move || kept.finish(&sink, &of_maker));
        let done = tokio::select! {
            () = self.stop.asked() => {
                progress.stop.store(true, Relaxed);
                making.await
            }
            done = &mut making => done,
        };
        let all_there = "all pages are kept, and the next run makes the output without a request";
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(SinkError::Interrupted)) => Err(Failure::Interrupted(Some(format!("interrupted; {all_there}")))),
            Ok(Err(error @ SinkError::Record { .. })) => Err(Failure::Data(format!("{error}; {all_there}"))),
            Ok(Err(error @ SinkError::Busy(_))) => Err(Failure::Transient(error.to_string())),
            Ok(Err(error @ (SinkError::Io { .. } | SinkError::Table { .. }))) => {
                Err(Failure::Permanent(format!("{error}; {all_there}")))
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// The failure, and from where on the next run goes on.
    fn with_what_is_kept(&self, failure: Failure, output: &Output, stand: &Stand) -> Failure {
        let is_kept = matches!(output, Output::File { .. }) && stand.page > 0;
        let kept = if is_kept {
            format!(
                "; {} of {} are kept, and the next run goes on there",
                Counted(stand.records, "record"),
                Counted(stand.page, "page")
            )
        } else {
            String::new()
        };
        match failure {
            Failure::Data(message) => Failure::Data(message + &kept),
            Failure::Transient(message) => Failure::Transient(message + &kept),
            Failure::Permanent(message) => Failure::Permanent(message + &kept),
            Failure::Interrupted(None) if is_kept => Failure::Interrupted(Some(format!("interrupted{kept}"))),
            other => other,
        }
    }
}

impl Output {
    /// What the last run left.
    fn past(&self) -> Option<Past> {
        match self {
            Self::File { kept, .. } => kept.past().cloned(),
            Self::Standard => None,
        }
    }
}

/// Puts a page where it goes. Answers with whether more is wanted: a reader of standard output may have had enough.
async fn write(output: &mut Output, written: &mut Written, stand: &Stand) -> Result<bool, Failure> {
    match output {
        Output::File { kept, .. } => {
            let kept = kept.page(&written.lines, &written.rejects, stand);
            kept.map_err(|error| Failure::Permanent(format!("page {} cannot be kept: {error}", stand.page)))?;
            Ok(true)
        }
        Output::Standard => {
            let lines = std::mem::take(&mut written.lines);
            // Not on this thread, which listens for SIGINT.
            let poured = task::spawn_blocking(move || {
                let mut out = io::stdout().lock();
                let poured = out.write_all(&lines).and_then(|()| out.flush());
                poured.map(|()| lines)
            });
            match poured.await.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(lines) => {
                    written.lines = lines;
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
                Err(error) => Err(Failure::Permanent(format!("standard output cannot be written to: {error}"))),
            }
        }
    }
}

fn unusable(error: &KeptError) -> Failure {
    match error {
        // It passes.
        KeptError::Taken(_) => Failure::Transient(error.to_string()),
        KeptError::OtherJob { .. } => Failure::Settings(error.to_string()),
        KeptError::Broken { .. } | KeptError::Io { .. } => Failure::Permanent(error.to_string()),
    }
}

/// A page that came and leads nowhere.
fn leads_nowhere(why: &WalkError, page: u64) -> Failure {
    match why {
        WalkError::Circle { .. } => {
            Failure::Permanent(format!("{why}; if it is the last, say so with --pages-max {page}"))
        }
        WalkError::OffSite { .. } => Failure::Permanent(why.to_string()),
        WalkError::Senseless { .. }
        | WalkError::Nowhere { .. }
        | WalkError::Unmarked { .. }
        | WalkError::NoUrl { .. } => Failure::Data(why.to_string()),
    }
}

/// What can be done about a page that is not there.
pub(super) fn failure_of(error: &PageError) -> Failure {
    let message = match error {
        PageError::Unreadable { why: SelectError::Missing(..) | SelectError::NotList(..), .. }
        | PageError::NoRecords { .. } => {
            format!("{error} (--records)")
        }
        _ => error.to_string(),
    };
    match error {
        PageError::Failed { error: Error::Transient { .. }, .. } => Failure::Transient(message),
        PageError::Failed { error: Error::Permanent { .. }, .. } | PageError::Outside { .. } => {
            Failure::Permanent(message)
        }
        PageError::Unreadable { .. } | PageError::NoRecords { .. } | PageError::Astray { .. } => Failure::Data(message),
    }
}
