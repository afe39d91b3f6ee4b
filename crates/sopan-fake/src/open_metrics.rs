//! Is this text what a scraper of metrics reads, to the letter?
//!
//! A strict reader of OpenMetrics 1.0, written after the specification and not after what anybody writes: what a lenient scraper
//! would mend is an error here. It takes neither timestamps nor exemplars, which nothing here writes, and wants a type of every
//! family. What the metrics should be called, and what they count, is for others to ask.

mod family;
mod line;

use std::collections::BTreeSet;

use family::{Kind, Open};
use line::{Line, Piece};

/// Metrics of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Without the suffixes of its samples.
    pub name: String,
    /// `counter`, `gauge`, `histogram`, `info`, and so on.
    pub kind: &'static str,
    /// What it is counted in; empty if nothing is said of that.
    pub unit: String,
    /// What is said of it.
    pub help: String,
    /// In the order of the text.
    pub samples: Vec<Sample>,
}

impl Family {
    /// What a query calls it: the name of its samples, for a histogram without their suffix.
    pub fn query(&self) -> String {
        match self.kind {
            "counter" => format!("{}_total", self.name),
            "info" => format!("{}_info", self.name),
            _ => self.name.clone(),
        }
    }

    /// The names of the labels that its samples have, but for those that its kind implies.
    pub fn labels(&self) -> BTreeSet<&str> {
        let all = self.samples.iter().flat_map(|sample| &sample.labels);
        all.map(|(name, _)| &**name).filter(|name| self.kind != "histogram" || *name != "le").collect()
    }
}

/// Names and values, as they stand there.
pub type Labels = Vec<(String, String)>;

/// A line with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// With its suffix.
    pub name: String,
    /// What tells it from others of its family.
    pub labels: Labels,
    /// What is told.
    pub value: f64,
}

/// Reads it all.
///
/// # Errors
/// The first line that is not as it must be, and why.
pub fn parse(text: &str) -> Result<Vec<Family>, String> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let body = body.strip_suffix("# EOF").ok_or("it does not end with # EOF")?;
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("# EOF stands on no line of its own".to_owned());
    }
    let mut read = Read::default();
    for (number, line) in body.split_terminator('\n').enumerate() {
        read.line(line).map_err(|why| format!("line {}: {line}: {why}", number + 1))?;
    }
    read.close().map_err(|why| format!("at the end: {why}"))?;
    Ok(read.families)
}

/// What has been read.
#[derive(Default)]
struct Read {
    families: Vec<Family>,
    /// That whose lines are being read.
    open: Option<Open>,
    /// All names that samples have, or might have had: none may be used for two families.
    taken: BTreeSet<String>,
}

impl Read {
    fn line(&mut self, text: &str) -> Result<(), String> {
        match line::read(text)? {
            Line::Said { piece, name, rest } => {
                if self.open.as_ref().is_none_or(|open| open.name != name) {
                    self.close()?;
                    self.open = Some(Open::new(name));
                }
                let open = self.open.as_mut().ok_or("no family is open")?;
                match piece {
                    Piece::Type => open.set_kind(Kind::read(rest).ok_or_else(|| format!("`{rest}` is no type"))?),
                    Piece::Help => open.set_help(rest),
                    Piece::Unit => open.set_unit(rest),
                }
            }
            Line::Sample(sample) => {
                let open = self.open.as_mut().ok_or("no family was declared")?;
                open.take(sample)
            }
        }
    }

    /// No more lines of the family that is open may come.
    fn close(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let (family, names) = open.close()?;
        for name in names {
            if self.taken.contains(&name) {
                return Err(format!("the name {name} stands in two places, or belongs to two families"));
            }
            self.taken.insert(name);
        }
        self.families.push(family);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
