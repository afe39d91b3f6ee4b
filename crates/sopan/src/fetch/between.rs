//! What has one run to do with the one before it?
//!
//! It may ask only for what is new since then, must not write over what was new then, and tells in what records have changed. What
//! a run leaves for that is in its state ([`super::stand::Past`]); a schema that it proposes is for people.

use sopan_core::headers::Parameter;
use sopan_core::pages::shape::Shape;
use sopan_core::pages::since::Mark;

use super::Failure;
use super::records::Records;
use super::sinks::Sink;
use super::stand::Past;
use super::traversal::{Context, Output};
use crate::config;

impl Context<'_> {
    /// What is asked for first: from the mark of the last run on, where that is wanted.
    pub(super) fn path(&self, since: Option<&str>) -> Result<String, Failure> {
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
    pub(super) fn not_over_what_is_new(
        &self,
        output: &Output,
        past: Option<&Past>,
        resumed: bool,
    ) -> Result<(), Failure> {
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
    pub(super) fn drift(&self, records: &Records<'_>, past: Option<&Past>) {
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
    pub(super) fn propose(&self, records: &Records<'_>) -> Result<(), Failure> {
        let (Some(file), Some(shape)) = (&self.settings.infer_schema, records.shape()) else { return Ok(()) };
        let schema = format!("{:#}\n", shape.schema());
        std::fs::write(file, schema)
            .map_err(|error| Failure::Permanent(format!("{} cannot be written: {error}", file.display())))?;
        self.teller.note(self, &format!("proposed a schema in {}", file.display()));
        Ok(())
    }
}
