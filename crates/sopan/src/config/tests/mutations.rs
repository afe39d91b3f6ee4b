//! Settings files as nobody would write them: whatever they hold, they are read in bounded time, and what is told of them stands
//! in them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::file::File;
use super::super::problem::{Place, Source};
use super::super::serve::loaded;
use super::super::{Loaded, Typed};

/// Dice that fall alike in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }

    fn of<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        &things[self.roll(things.len())]
    }
}

/// What means something somewhere.
const PIECES: &[&str] = &[
    "\t",
    "\n",
    "\r\n",
    " ",
    ":",
    ": ",
    "- ",
    "#",
    "\"",
    "'",
    "`",
    "|",
    ">",
    "&a ",
    "*a",
    "<<: *a",
    "!!x ",
    "?",
    "---\n",
    "...\n",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    ",",
    "=",
    "~",
    "null",
    "true",
    "\\",
    "\\u0000",
    "\\x",
    "${",
    "${X}",
    "${X:-}",
    "$",
    "$$",
    "://",
    "@",
    "://a:b@c",
    "99999999999999999999",
    "1e400",
    "-1",
    "nan",
    "é",
    "日本",
    "\u{202e}",
    "\u{feff}",
    "\0",
    "\u{1b}[2J",
    "upstreams",
    "defaults",
    "limits",
    "10/s burst 20",
    "unlimited",
    "; ",
    "off",
];

fn mutated(text: &str, others: &[String], dice: &mut Dice) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(lines.len());
        if lines.is_empty() {
            break;
        }
        match dice.roll(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let with = dice.roll(lines.len());
                lines.swap(at, with);
            }
            3 => lines.truncate(at + 1),
            4 => {
                let other = dice.of(others).split_inclusive('\n').collect::<Vec<_>>();
                if !other.is_empty() {
                    lines.insert(at, (*dice.of(&other)).to_owned());
                }
            }
            5 => {
                let cut = dice.roll(lines[at].chars().count() + 1);
                lines[at] = lines[at].chars().skip(cut).collect();
            }
            kind => {
                let place = dice.roll(lines[at].chars().count() + 1);
                let mut new: String = lines[at].chars().take(place).collect();
                let piece: &&str = dice.of(PIECES);
                new.push_str(piece);
                new.extend(lines[at].chars().skip(place + (kind - 6)));
                lines[at] = new;
            }
        }
    }
    lines.concat()
}

#[track_caller]
fn check(path: &str, text: &str) -> Loaded {
    let loaded = loaded(Some(File::of(Source { path: path.to_owned(), text: text.to_owned() })), &Typed::default());
    for problem in &loaded.wrong.problems {
        let also = problem.also.iter().map(|(span, _)| span);
        let place = if let Place::File(span) = &problem.place { Some(span) } else { None };
        for span in also.chain(place) {
            assert!(text.get(span.clone()).is_some(), "{problem:?} is outside of {text:?}");
        }
    }
    let told = loaded.wrong.told(false);
    assert!(!told.contains(|c: char| c.is_control() && c != '\n'), "{told:?}");
    assert_eq!(loaded.serve.is_some(), !loaded.wrong.has_errors(), "{told}");
    loaded
}

#[test]
fn whatever_a_file_holds_it_is_read_and_told_in_bounded_time() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings");
    // Of so many wrong ones hardly any would be right after a change.
    let [right, wrong] = ["right", "wrong"].map(|part| {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory.join(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if let Ok(text) = fs::read_to_string(&path)
                && !name.ends_with(".txt")
            {
                files.push((name, text));
            }
        }
        files.sort();
        files
    });
    let texts: Vec<_> = right.iter().chain(&wrong).map(|(_, text)| text.clone()).collect();
    let mut dice = Dice(0x5eed);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..2_000 {
        let (name, text) = if dice.roll(2) == 0 { dice.of(&right) } else { dice.of(&wrong) };
        let text = mutated(text, &texts, &mut dice);
        let begun = Instant::now();
        let loaded = check(name, &text);
        // Most take a millisecond.
        assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
        if loaded.serve.is_some() { read += 1 } else { refused += 1 }
    }
    assert!(read > 20 && refused > 200, "{read} {refused}");
}
