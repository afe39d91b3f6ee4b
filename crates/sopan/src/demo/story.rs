//! What is played, and what has come of it so far?
//!
//! The numbers of the play stand here. Everything else is facts: what the programs asked and got, what arrived at the APIs,
//! and what sopan's log said. Whatever is shown is counted from them, so the demo shows what happened and not what should
//! have.

use std::time::Duration;

/// What the API allows in a second.
pub(super) const PER_SECOND: u32 = 10;
/// What it allows at once, after a quiet time.
pub(super) const AT_ONCE: u32 = 5;
/// How many programs there are on each side.
pub(super) const PROGRAMS: u32 = 3;
/// How often each of them asks, all together three times what is allowed.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// How often each asks in all, which takes three seconds.
pub(super) const REQUESTS: u32 = 30;
/// When the API closes for a moment.
pub(super) const CLOSES_AT: Duration = Duration::from_millis(1500);
/// And for how long. Its Retry-After says a second, since there are only whole ones.
pub(super) const CLOSED_FOR: Duration = Duration::from_millis(500);

/// The limit as settings write it.
pub(super) fn limit() -> String {
    format!("{PER_SECOND}/s burst {AT_ONCE}")
}

/// What it is about, to begin with.
pub(super) fn opening() -> [String; 2] {
    let asked = u128::from(PROGRAMS) * 1000 / EVERY.as_millis();
    let (seconds, closed) = ((EVERY * REQUESTS).as_secs(), CLOSED_FOR.as_secs_f64());
    [
        format!("An API allows {PER_SECOND} requests a second, {AT_ONCE} at once, and closes once for {closed} s. For"),
        format!("{seconds} s programs ask {asked} times a second: without sopan, never twice, and through it."),
    ]
}

/// What to do next.
pub(super) fn closing() -> [String; 4] {
    [
        "",
        "Next, put sopan in front of your own API, with the limit that it states:",
        "  sopan serve --upstream https://YOUR-API --rate 10/s --burst 20",
        "and let the program ask http://127.0.0.1:8000 instead of https://YOUR-API.",
    ]
    .map(str::to_owned)
}

/// All that has happened until now; instants are counted from the first request.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) now: Duration,
    pub(super) without: Side,
    pub(super) through: Side,
    /// What sopan's log said, in order.
    pub(super) said: Vec<Said>,
}

/// The programs of one side and the API that they asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    pub(super) asked: Vec<Asked>,
    /// In order.
    pub(super) arrivals: Vec<Arrival>,
}

/// One request of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) at: Duration,
    pub(super) ended: Option<Ended>,
}

/// What a program got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) at: Duration,
    /// None where there was no answer.
    pub(super) status: Option<u16>,
}

/// One request as the API saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Duration,
    pub(super) status: u16,
}

/// One line of the log, without its time.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) at: Duration,
    pub(super) line: String,
}

impl Facts {
    /// Whether every program has asked all it wants to and got its answers.
    pub(super) fn is_over(&self) -> bool {
        self.without.is_over() && self.through.is_over()
    }
}

impl Side {
    pub(super) fn is_over(&self) -> bool {
        self.asked.len() == (PROGRAMS * REQUESTS) as usize && self.waiting() == 0
    }

    /// Requests that have no answer yet.
    pub(super) fn waiting(&self) -> usize {
        self.asked.iter().filter(|asked| asked.ended.is_none()).count()
    }

    /// Requests whose program got this.
    pub(super) fn got(&self, status: u16) -> usize {
        self.ended().filter(|(_, ended)| ended.status == Some(status)).count()
    }

    /// Requests whose program got something that nobody had in mind.
    pub(super) fn got_else(&self) -> usize {
        self.ended().filter(|(_, ended)| !matches!(ended.status, Some(200 | 429 | 503))).count()
    }

    /// Arrivals that the API answered so.
    pub(super) fn arrived(&self, status: u16) -> usize {
        self.arrivals.iter().filter(|arrival| arrival.status == status).count()
    }

    /// Whether the API refused what came last.
    pub(super) fn is_refused(&self) -> bool {
        self.arrivals.last().is_some_and(|last| last.status != 200)
    }

    /// The longest that a program has waited for an answer.
    pub(super) fn longest(&self) -> Duration {
        self.ended().map(|(asked, ended)| ended.at.saturating_sub(asked.at)).max().unwrap_or_default()
    }

    /// When the last answer came.
    pub(super) fn last(&self) -> Duration {
        self.ended().map(|(_, ended)| ended.at).max().unwrap_or_default()
    }

    fn ended(&self) -> impl Iterator<Item = (&Asked, Ended)> {
        self.asked.iter().filter_map(|asked| Some((asked, asked.ended?)))
    }
}
