//! What of a page is kept, and in which form?
//!
//! Each record is checked, put on a line, and looked at for what the next run has to know: what records are like, and how far in
//! time they reach. All of a page is looked at before anything of it is written, so that a page that stops a run leaves nothing.

use serde_json::json;
use serde_json::value::RawValue;
use sopan_core::pages::Pointer;
use sopan_core::pages::raw;
use sopan_core::pages::shape::{Layouts, Shape};
use sopan_core::pages::since::Mark;
use sopan_engine::pages::Page;

use super::Failure;
use super::schema::{Mismatch, Schema};
use super::stand::Stand;
use crate::config::{self, OnMismatch};
use crate::log::Counted;

/// Lines of a page.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) lines: Vec<u8>,
    pub(super) rejects: Vec<u8>,
}

/// What is done with the records of a job.
#[derive(Debug)]
pub(super) struct Records<'j> {
    job: &'j config::Job,
    schema: Option<Schema>,
    /// None where nobody wants to know.
    layouts: Option<Layouts>,
    /// The greatest so far.
    mark: Option<Mark>,
    /// Those that were kept although they do not follow the schema.
    pub(super) kept_anyway: u64,
    /// Those that are told of one by one.
    told: u32,
}

/// So many records that do not follow the schema are told of one by one.
const TOLD_MAX: u32 = 5;

impl<'j> Records<'j> {
    /// For a job, of which the schema was read.
    pub(super) fn new(job: &'j config::Job, schema: Option<Schema>) -> Self {
        Self { job, schema, layouts: None, mark: None, kept_anyway: 0, told: 0 }
    }

    /// Looks at what they are like, from what they were like so far.
    pub(super) fn look(&mut self, so_far: Option<&str>) {
        let shape = so_far.and_then(|shape| serde_json::from_str::<Shape>(shape).ok()).unwrap_or_default();
        self.layouts = Some(Layouts::new(shape));
    }

    /// The greatest mark so far.
    pub(super) fn reaches(&mut self, mark: Option<&str>) {
        self.mark = mark.map(|mark| Mark::from(mark.to_owned()));
    }

    pub(super) fn shape(&self) -> Option<&Shape> {
        self.layouts.as_ref().map(Layouts::shape)
    }

    /// Makes lines of the records of a page, tells where the traversal stands then, and what is to be told of them.
    ///
    /// # Errors
    /// Nothing of the page is good then.
    pub(super) fn take(
        &mut self,
        page: &Page,
        stand: &mut Stand,
        written: &mut Written,
    ) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        let room = self.job.records_max.map_or(u64::MAX, |max| max.saturating_sub(stand.records));
        let (mut good, mut aside, mut is_unlike) = (0, 0, false);
        written.lines.clear();
        written.rejects.clear();
        for (at, bytes) in page.records().enumerate() {
            if good == room {
                break;
            }
            // It was read as JSON, which is text.
            let text = String::from_utf8_lossy(bytes);
            let mismatch = self.schema.as_ref().and_then(|schema| schema.mismatch(bytes));
            if let Some(mismatch) = mismatch {
                let told = format!("page {}, record {}, {mismatch}", page.number, at + 1);
                match self.job.on_mismatch {
                    OnMismatch::Stop => return Err(Failure::Data(told)),
                    OnMismatch::Skip => {
                        set_aside(page.number, at + 1, &mismatch, &text, &mut written.rejects);
                        aside += 1;
                    }
                    OnMismatch::Keep => self.kept_anyway += 1,
                }
                if self.told < TOLD_MAX {
                    self.told += 1;
                    let what = if self.job.on_mismatch == OnMismatch::Keep { "kept" } else { "set aside" };
                    notes.push(format!("{what}: {told}"));
                }
                if self.job.on_mismatch == OnMismatch::Skip {
                    continue;
                }
            }
            if self.layouts.is_some() || self.job.since.is_some() {
                let Ok(record) = serde_json::from_str::<&RawValue>(&text) else { continue };
                is_unlike |= self.layouts.as_mut().is_some_and(|layouts| layouts.add(record));
                if let Some(since) = &self.job.since {
                    self.mark(record, &since.field, page.number, at + 1)?;
                }
            }
            raw::write_compact(&text, &mut written.lines);
            written.lines.push(b'\n');
            good += 1;
        }
        stand.records += good;
        stand.rejects += aside;
        stand.mark = self.mark.as_ref().map(Mark::to_string);
        // It is kept only where it says something new.
        stand.shape = self.shape().filter(|_| is_unlike).and_then(|shape| serde_json::to_string(shape).ok());
        Ok(notes)
    }

    fn mark(&mut self, record: &RawValue, field: &Pointer, page: u64, number: usize) -> Result<(), Failure> {
        let found = raw::pick(record.get().as_bytes(), [field]).ok().and_then(|[found]| found);
        let Some(mark) = found.and_then(Mark::of) else { return Ok(()) };
        let Some(greatest) = &self.mark else {
            self.mark = Some(mark);
            return Ok(());
        };
        match mark.order(greatest) {
            Some(order) => {
                if order.is_gt() {
                    self.mark = Some(mark);
                }
                Ok(())
            }
            None => Err(Failure::Data(format!(
                "page {page}, record {number}: what stands at {field} is of another kind than in records before it, so that \
                 nobody can tell which is later; take another field for --since-field"
            ))),
        }
    }

    /// What became of those that do not follow the schema, beyond those that were told of one by one.
    pub(super) fn mismatches(&self) -> Option<String> {
        (self.kept_anyway > 0)
            .then(|| format!("{} kept that do not follow the schema", Counted(self.kept_anyway, "record")))
    }
}

/// A line for a record that is set aside: what is wrong with it, and itself.
fn set_aside(page: u64, number: usize, mismatch: &Mismatch, text: &str, rejects: &mut Vec<u8>) {
    let Mismatch { at, rule, rule_at, why } = mismatch;
    let told =
        json!({"page": page, "record": number, "at": at, "rule": rule, "rule_at": rule_at, "why": why}).to_string();
    rejects.extend_from_slice(told.trim_end_matches('}').as_bytes());
    rejects.extend_from_slice(b",\"value\":");
    raw::write_compact(text, rejects);
    rejects.extend_from_slice(b"}\n");
}
