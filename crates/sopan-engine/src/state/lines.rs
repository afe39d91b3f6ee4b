//! The file's text: JSON, an object a line.
//!
//! The first line says what the file is. Then every process says under which boot it writes, and every line of notes when it
//! was said, by the clock on the wall and by the time since the boot. Within one boot the distance is known exactly,
//! whatever was done to the clock on the wall; after another it is that clock's, and what lies in its future was just now.
//! The last line may be torn, and is passed over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sopan_core::journal::{Ledger, Left, Note, Tick};
use sopan_core::time::nanos;

use super::StateError;
use crate::clock::Clock;

/// The form that is written here. Another number means that this program cannot read it.
const VERSION: u32 = 1;

/// The present time by both clocks, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) wall: Tick,
    pub(super) boot: Option<Tick>,
}

impl Stamp {
    pub(super) fn of(clock: Clock) -> Self {
        let ticks = |span: Duration| Tick::try_from(nanos(span)).unwrap_or(Tick::MAX);
        let wall = clock.wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, ticks);
        Self { wall, boot: clock.boot_time().map(ticks) }
    }

    /// On the axis that is used while the file is open.
    pub(super) fn tick(self) -> Tick {
        self.boot.unwrap_or(self.wall)
    }
}

/// What tells this boot of the machine from others, where the system says so.
pub(super) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[derive(Serialize, Deserialize)]
struct Header {
    sopan_state: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Notes {
        upstream: String,
        /// Microseconds since 1970, and since the boot.
        wall_us: i64,
        boot_us: Option<i64>,
        notes: Vec<Written>,
    },
    Process {
        process: Process,
    },
}

#[derive(Serialize, Deserialize)]
struct Process {
    boot: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    /// `left`: pairs of microseconds before this line, and turns.
    Sliding {
        limit: String,
        left: Vec<(u64, u64)>,
        may: u64,
    },
    Calendar {
        limit: String,
        days: Vec<(String, u64)>,
        today: String,
        may: u64,
    },
    Hold {
        left_us: u64,
    },
    Breaker {
        open_us: Option<u64>,
    },
}

/// What a file begins with.
pub(super) fn header() -> Vec<u8> {
    as_line(&Header { sopan_state: VERSION })
}

/// Under which boot the lines are written that follow.
pub(super) fn process(boot: Option<&str>) -> Vec<u8> {
    as_line(&Line::Process { process: Process { boot: boot.map(str::to_owned) } })
}

/// These notes, said now.
pub(super) fn line(upstream: &str, notes: &[Note], now: Stamp) -> Vec<u8> {
    as_line(&Line::Notes {
        upstream: upstream.to_owned(),
        wall_us: now.wall / 1_000,
        boot_us: now.boot.map(|boot| boot / 1_000),
        notes: notes.iter().map(Written::of).collect(),
    })
}

fn as_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("texts and numbers can always be written");
    line.push(b'\n');
    line
}

/// Whether a crash came before the file's first line was on the disk.
pub(super) fn is_unwritten(text: &[u8]) -> bool {
    let is_begun = text.len() < header().len() && header().starts_with(text);
    is_begun || text.iter().all(|byte| *byte == 0)
}

/// What a file knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) ledgers: BTreeMap<String, Ledger>,
    /// Lines but the last that say nothing.
    pub(super) unreadable: usize,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Foreign,
    Newer { version: u32 },
}

impl Unknown {
    pub(super) fn of(self, path: &Path) -> StateError {
        let path = path.to_owned();
        match self {
            Self::Foreign => StateError::Foreign { path },
            Self::Newer { version } => StateError::Newer { path, version, known: VERSION },
        }
    }
}

/// Reads a whole file. `boot` is the present one.
pub(super) fn read(text: &[u8], boot: Option<&str>, now: Stamp) -> Result<Known, Unknown> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next() else { return Ok(Known::default()) };
    match serde_json::from_slice::<Header>(first) {
        Ok(Header { sopan_state: VERSION }) => {}
        Ok(Header { sopan_state: version }) => return Err(Unknown::Newer { version }),
        Err(_) => return Err(Unknown::Foreign),
    }
    let (mut known, mut is_same_boot) = (Known::default(), false);
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(Line::Process { process }) => is_same_boot = process.boot.is_some() && process.boot.as_deref() == boot,
            Ok(Line::Notes { upstream, wall_us, boot_us, notes }) => {
                let said = tick(wall_us, boot_us.filter(|_| is_same_boot), now);
                let ledger = known.ledgers.entry(upstream).or_default();
                notes.into_iter().filter_map(Written::read).for_each(|note| ledger.add(note, said));
            }
            // An empty line ends one that was torn.
            Err(_) => known.unreadable += usize::from(line.ends_with(b"\n") && line != b"\n"),
        }
    }
    Ok(known)
}

/// When a line was said, on the present axis.
fn tick(wall_us: i64, boot_us: Option<i64>, now: Stamp) -> Tick {
    match (boot_us, now.boot) {
        (Some(then), Some(now)) => then.saturating_mul(1_000).min(now),
        _ => {
            let ago = now.wall.saturating_sub(wall_us.saturating_mul(1_000)).max(0);
            now.tick().saturating_sub(ago)
        }
    }
}

impl Written {
    fn of(note: &Note) -> Self {
        match note {
            // In doubt it left later.
            Note::Sliding { limit, left, may } => Self::Sliding {
                limit: limit.as_ref().to_owned(),
                left: left.iter().map(|left| (whole_micros(left.ago), left.turns)).collect(),
                may: *may,
            },
            Note::Calendar { limit, days, today, may } => Self::Calendar {
                limit: limit.as_ref().to_owned(),
                days: days.iter().map(|(date, used)| (date.to_string(), *used)).collect(),
                today: today.to_string(),
                may: *may,
            },
            Note::Hold { left } => Self::Hold { left_us: whole_micros(*left) + 1 },
            Note::Breaker { open_for } => Self::Breaker { open_us: open_for.map(whole_micros) },
        }
    }

    fn read(self) -> Option<Note> {
        Some(match self {
            Self::Sliding { limit, left, may } => {
                let left = left.into_iter().map(|(ago, turns)| Left { ago: Duration::from_micros(ago), turns });
                Note::Sliding { limit: limit.into(), left: left.collect(), may }
            }
            Self::Calendar { limit, days, today, may } => {
                let days = days.into_iter().filter_map(|(date, used)| Some((date.parse().ok()?, used)));
                Note::Calendar { limit: limit.into(), days: days.collect(), today: today.parse().ok()?, may }
            }
            Self::Hold { left_us } => Note::Hold { left: Duration::from_micros(left_us) },
            Self::Breaker { open_us } => Note::Breaker { open_for: open_us.map(Duration::from_micros) },
        })
    }
}

fn whole_micros(span: Duration) -> u64 {
    nanos(span) / 1_000
}
