//! What may the lines of one family say, and in which order?

use std::collections::{BTreeMap, BTreeSet};

use super::line::{read_number, unescaped};
use super::{Family, Sample};

/// What a family is, which says how its samples are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
    Unknown,
}

impl Kind {
    /// Summaries, sets of states and histograms of gauges are not written by anything here.
    pub(super) fn read(word: &str) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram, Self::Info, Self::Unknown]
            .into_iter()
            .find(|kind| kind.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
            Self::Unknown => "unknown",
        }
    }

    /// What is added to the name of the family for its samples.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total", "_created"],
            Self::Gauge | Self::Unknown => &[""],
            Self::Histogram => &["_bucket", "_count", "_sum", "_created"],
            Self::Info => &["_info"],
        }
    }
}

/// A family whose lines are being read.
pub(super) struct Open {
    pub(super) name: String,
    kind: Option<Kind>,
    help: Option<String>,
    unit: Option<String>,
    samples: Vec<Sample>,
    /// Each series once.
    series: BTreeSet<(String, BTreeMap<String, String>)>,
    /// The metrics that are over, by their labels, and the one that is not: their samples must not be mixed.
    over: BTreeSet<BTreeMap<String, String>>,
    current: Option<BTreeMap<String, String>>,
}

impl Open {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: None,
            help: None,
            unit: None,
            samples: Vec::new(),
            series: BTreeSet::new(),
            over: BTreeSet::new(),
            current: None,
        }
    }

    pub(super) fn set_kind(&mut self, kind: Kind) -> Result<(), String> {
        self.before_samples(self.kind.is_some())?;
        self.kind = Some(kind);
        Ok(())
    }

    pub(super) fn set_help(&mut self, text: &str) -> Result<(), String> {
        self.before_samples(self.help.is_some())?;
        self.help = Some(unescaped(text)?);
        Ok(())
    }

    pub(super) fn set_unit(&mut self, unit: &str) -> Result<(), String> {
        self.before_samples(self.unit.is_some())?;
        if !self.name.ends_with(&format!("_{unit}")) {
            return Err(format!("the name does not end with the unit {unit}"));
        }
        self.unit = Some(unit.to_owned());
        Ok(())
    }

    fn before_samples(&self, is_there: bool) -> Result<(), String> {
        match (is_there, self.samples.is_empty()) {
            (true, _) => Err("it is said twice".to_owned()),
            (false, false) => Err("it stands behind the samples".to_owned()),
            (false, true) => Ok(()),
        }
    }

    pub(super) fn take(&mut self, sample: Sample) -> Result<(), String> {
        let kind = self.kind.ok_or("its family has no type")?;
        let suffix = sample.name.strip_prefix(&*self.name).filter(|suffix| kind.suffixes().contains(suffix));
        let suffix = suffix.ok_or_else(|| format!("it does not belong to the {} {}", kind.word(), self.name))?;
        check_value(kind, suffix, sample.value)?;
        let mut labels: BTreeMap<_, _> = sample.labels.iter().cloned().collect();
        if !self.series.insert((sample.name.clone(), labels.clone())) {
            return Err("it is there twice".to_owned());
        }
        if kind == Kind::Histogram {
            let le = labels.remove("le");
            if le.is_some() != (suffix == "_bucket") {
                return Err("the label le belongs to buckets, and only to them".to_owned());
            }
        }
        if self.current.as_ref() != Some(&labels) {
            self.over.extend(self.current.replace(labels.clone()));
            if self.over.contains(&labels) {
                return Err("samples of other labels stand between those with these".to_owned());
            }
        }
        self.samples.push(sample);
        Ok(())
    }

    /// The family, and all names that its samples might have.
    pub(super) fn close(self) -> Result<(Family, Vec<String>), String> {
        let Self { name, kind, help, unit, samples, .. } = self;
        let kind = kind.ok_or_else(|| format!("{name} has no type"))?;
        if kind == Kind::Histogram {
            check_histograms(&name, &samples)?;
        }
        let mut names: BTreeSet<_> = kind.suffixes().iter().map(|suffix| format!("{name}{suffix}")).collect();
        names.insert(name.clone());
        let (unit, help) = (unit.unwrap_or_default(), help.unwrap_or_default());
        Ok((Family { name, kind: kind.word(), unit, help, samples }, names.into_iter().collect()))
    }
}

fn check_value(kind: Kind, suffix: &str, value: f64) -> Result<(), String> {
    let is_whole = value.fract() == 0.0 && value >= 0.0;
    let is_right = match (kind, suffix) {
        (Kind::Counter, "_total") => value.is_finite() && value >= 0.0,
        (Kind::Histogram, "_bucket" | "_count") => is_whole,
        // Nothing here observes what is less than nothing.
        (Kind::Histogram, "_sum") => value >= 0.0,
        (Kind::Info, _) => value == 1.0,
        (Kind::Counter | Kind::Histogram | Kind::Gauge | Kind::Unknown, _) => true,
    };
    if is_right { Ok(()) } else { Err(format!("{value} cannot be the value of a {}{suffix}", kind.word())) }
}

/// What is known of one histogram.
#[derive(Default)]
struct Histogram {
    /// Bounds and counts, in order.
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: Option<f64>,
}

fn check_histograms(name: &str, samples: &[Sample]) -> Result<(), String> {
    let mut all = BTreeMap::<Vec<&(String, String)>, Histogram>::new();
    for sample in samples {
        let mut labels: Vec<_> = sample.labels.iter().filter(|(name, _)| name != "le").collect();
        labels.sort();
        let histogram = all.entry(labels).or_default();
        match &sample.name[name.len()..] {
            "_count" => histogram.count = Some(sample.value),
            "_sum" => histogram.sum = Some(sample.value),
            "_bucket" => {
                let le = sample.labels.iter().find(|(name, _)| name == "le").map_or("", |(_, le)| le);
                histogram.buckets.push((read_number(le)?, sample.value));
            }
            _ => {}
        }
    }
    for (labels, Histogram { buckets, count, sum }) in all {
        let wrong = |why: &str| Err(format!("{name} with {labels:?}: {why}"));
        if !buckets.is_sorted_by(|(one, _), (next, _)| one < next) {
            return wrong("the bounds of its buckets do not ascend");
        }
        if !buckets.is_sorted_by(|(_, one), (_, next)| one <= next) {
            return wrong("a bucket holds less than the one before");
        }
        let Some((_, all)) = buckets.last().filter(|(le, _)| *le == f64::INFINITY) else {
            return wrong("its last bucket is not that of +Inf");
        };
        if count.is_none() || sum.is_none() || count != Some(*all) {
            return wrong("its count is not that of the last bucket, or there is no sum");
        }
    }
    Ok(())
}
