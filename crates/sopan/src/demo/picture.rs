//! The picture: two fields over the same time, one for each API, in which every arrival is a letter.
//!
//! A column is a fifth of a second. What arrived in it stands on top of each other, what was answered lowest, so that the
//! height is how often the API was asked and the colour is what it said. Below, in words, what is going on. Letters tell as
//! much as colours, and all of them are ASCII, which every terminal shows as wide as it is.

use std::ops::Range;
use std::time::Duration;

use super::story::{Arrival, Facts, Side};

/// No line is longer.
pub(super) const WIDTH: usize = 78;
/// Every picture has so many lines.
pub(super) const HEIGHT: usize = 1 + ROWS[0] + 2 + 1 + ROWS[1] + 2 + 1 + 1 + LOG;

/// How long a column is.
const COLUMN: Duration = Duration::from_millis(200);
/// More time than this moves out of the picture to the left.
const COLUMNS: usize = 60;
/// What stands left of the fields.
const MARGIN: usize = 11;
/// The most that arrives in a column: three times what is allowed without sopan, through it what may leave at once.
const ROWS: [usize; 2] = [6, 5];
/// So many lines of the log are shown, the last ones.
const LOG: usize = 2;

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Colours,
}

/// What an API can say, lowest first: the status, its letter and its colour.
const SAID: [(u16, char, u8); 3] = [(200, 'o', 32), (429, 'x', 31), (503, '!', 33)];
/// What stands for anything else, and for what is too much for a field.
const OTHER: (char, u8) = ('+', 35);

impl Ink {
    fn paint(self, colour: u8, text: &str) -> String {
        match self {
            Self::Colours if !text.trim().is_empty() => format!("\x1b[{colour}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// All its lines.
pub(super) fn draw(facts: &Facts, ink: Ink) -> Vec<String> {
    let last = column(facts.now);
    let shown = (last + 1).saturating_sub(COLUMNS)..last + 1;
    let Facts { without, through, said, .. } = facts;
    let mut picture = vec![String::new()];
    picture.extend(field("without", without, ROWS[0], shown.clone(), ink));
    picture.push(margin("") + &axis(shown.clone()));
    picture.push(margin("") + &count(without, ink));
    picture.push(String::new());
    picture.extend(field("through", through, ROWS[1], shown, ink));
    picture.push(margin("") + &count(through, ink));
    picture.push(margin("waiting") + &waiting(through.waiting(), ink));
    picture.push(String::new());
    picture.push(margin(&format!("{:.1} s", facts.now.as_secs_f64())) + going_on(facts));
    let log = said[said.len().saturating_sub(LOG)..].iter().map(|said| &*said.line);
    let log = log.zip(["log", ""]).map(|(line, label)| fit(&(margin(label) + line)));
    picture.extend(log.chain(std::iter::repeat(String::new())).take(LOG));
    picture
}

fn column(at: Duration) -> usize {
    usize::try_from(at.as_millis() / COLUMN.as_millis()).unwrap_or(usize::MAX - 1)
}

fn margin(text: &str) -> String {
    format!("  {text:<width$}", width = MARGIN - 2)
}

/// The arrivals of one side, from the top row to the lowest.
fn field(name: &str, side: &Side, rows: usize, shown: Range<usize>, ink: Ink) -> Vec<String> {
    let columns: Vec<_> = shown.map(|number| stack(&side.arrivals, number, rows)).collect();
    let row = |row: usize| {
        let labels = [name, "sopan"];
        let label = labels.get(rows - 1 - row).unwrap_or(&"");
        let mut line = margin(label);
        // Neighbours of one colour are painted in one go.
        let letters: Vec<_> = columns.iter().map(|column| column.get(row).copied().unwrap_or((' ', 0))).collect();
        for run in letters.chunk_by(|a, b| a.1 == b.1) {
            let text: String = run.iter().map(|(letter, _)| letter).collect();
            line += &ink.paint(run[0].1, &text);
        }
        line.trim_end().to_owned()
    };
    (0..rows).rev().map(row).collect()
}

/// What arrived in one column, lowest first.
fn stack(arrivals: &[Arrival], number: usize, rows: usize) -> Vec<(char, u8)> {
    let here = || arrivals.iter().filter(|arrival| column(arrival.at) == number);
    let known = SAID.iter().flat_map(|(status, letter, colour)| {
        here().filter(move |arrival| arrival.status == *status).map(|_| (*letter, *colour))
    });
    let other = here().filter(|arrival| SAID.iter().all(|(status, ..)| *status != arrival.status)).map(|_| OTHER);
    let mut stack: Vec<_> = known.chain(other).collect();
    if stack.len() > rows {
        stack.truncate(rows - 1);
        stack.push(OTHER);
    }
    stack
}

/// The seconds below the columns in which they begin.
fn axis(shown: Range<usize>) -> String {
    let per_second = 1000 / usize::try_from(COLUMN.as_millis()).unwrap_or(1000);
    let mut axis = String::new();
    for (place, number) in shown.enumerate().filter(|(_, number)| number % per_second == 0) {
        if axis.len() <= place {
            axis = format!("{axis:<place$}{}", number / per_second);
        }
    }
    axis + " s"
}

/// How many arrived, and what they were told.
fn count(side: &Side, ink: Ink) -> String {
    let each = SAID.map(|(status, letter, colour)| {
        let letter = ink.paint(colour, &letter.to_string());
        format!("   {letter} {} got {status}", side.arrived(status))
    });
    format!("{} arrived:{}", side.arrivals.len(), each.concat())
}

/// A dot for every request that waits, two in a place.
fn waiting(number: usize, ink: Ink) -> String {
    let bar = ":".repeat(number / 2) + if number % 2 == 1 { "." } else { "" };
    let bar: String = bar.chars().take(COLUMNS).collect();
    let bar = ink.paint(36, &bar);
    format!("{number:<3} {bar}").trim_end().to_owned()
}

/// What is going on, and why.
fn going_on(Facts { without, through, .. }: &Facts) -> &'static str {
    if through.is_over() {
        "all have their answers"
    } else if through.is_refused() {
        "the API asks for a pause: sopan sends nothing until it is over"
    } else if without.is_over() {
        "nobody asks any more; what waits leaves at the pace of the API"
    } else {
        "more is asked than allowed: refused without sopan, waiting with it"
    }
}

fn fit(line: &str) -> String {
    line.chars().take(WIDTH).collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::{Asked, Ended, Said};
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A side of whose requests so many wait, with arrivals at these milliseconds.
    fn side(waiting: usize, arrivals: &[(u64, u16)]) -> Side {
        let arrivals: Vec<_> = arrivals.iter().map(|(at, status)| Arrival { at: ms(*at), status: *status }).collect();
        let answered = Asked { at: ms(0), ended: Some(Ended { at: ms(0), status: Some(200) }) };
        let waits = Asked { at: ms(0), ended: None };
        let asked = std::iter::repeat_n(answered, arrivals.len()).chain(std::iter::repeat_n(waits, waiting)).collect();
        Side { asked, arrivals }
    }

    fn facts() -> Facts {
        let mut without: Vec<_> = (0..6).map(|n| (n * 33, if n < 4 { 200 } else { 429 })).collect();
        without.extend([(200, 503), (399, 200), (1100, 429)]);
        let through = [(0, 200), (0, 200), (150, 200), (160, 200), (170, 200), (180, 200), (999, 503)];
        let line = |line: &str| Said { at: ms(1000), line: line.to_owned() };
        let said = ["INFO gone", "INFO a pause", "WARN a retry"].map(line);
        Facts { now: ms(1234), without: side(0, &without), through: side(5, &through), said: said.to_vec() }
    }

    #[test]
    fn every_arrival_is_a_letter_in_its_column() {
        let expected = [
            "",
            "  without  x",
            "  sopan    x",
            "           o",
            "           o",
            "           o!",
            "           oo   x",
            "           0    1 s",
            "           9 arrived:   o 5 got 200   x 3 got 429   ! 1 got 503",
            "",
            "  through  +",
            "  sopan    o",
            "           o",
            "           o",
            "           o   !",
            "           7 arrived:   o 6 got 200   x 0 got 429   ! 1 got 503",
            "  waiting  5   ::.",
            "",
            "  1.2 s    the API asks for a pause: sopan sends nothing until it is over",
            "  log      INFO a pause",
            "           WARN a retry",
        ];
        assert_eq!(draw(&facts(), Ink::Plain), expected);
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let (plain, coloured) = (draw(&facts(), Ink::Plain), draw(&facts(), Ink::Colours));
        let stripped: Vec<_> = coloured.iter().map(|line| without_colours(line)).collect();
        assert_eq!(stripped, plain);
        assert_eq!(coloured[6], "           \x1b[32moo\x1b[0m   \x1b[31mx\x1b[0m");
    }

    fn without_colours(line: &str) -> String {
        let mut pieces = line.split("\x1b[");
        let first = pieces.next().unwrap_or_default();
        pieces.fold(first.to_owned(), |text, piece| text + piece.split_once('m').unwrap().1)
    }

    #[test]
    fn a_picture_always_has_its_size() {
        let many: Vec<_> = (0..5000).map(|n| (n * 10, [200, 429, 503, 418][n as usize % 4])).collect();
        let long = Said { at: ms(0), line: "x".repeat(500) };
        let full = Facts { now: ms(50_000), without: side(0, &many), through: side(5000, &many), said: vec![long; 9] };
        for facts in [Facts::default(), facts(), full] {
            let picture = draw(&facts, Ink::Plain);
            assert_eq!(picture.len(), HEIGHT);
            assert!(picture.iter().all(|line| line.chars().count() <= WIDTH), "{picture:#?}");
        }
    }

    #[test]
    fn what_was_long_ago_moves_out_to_the_left() {
        let facts = Facts { now: ms(13_000), without: side(0, &[(100, 200), (12_900, 429)]), ..Facts::default() };
        let picture = draw(&facts, Ink::Plain);
        assert_eq!(picture[6], format!("           {}x", " ".repeat(58)));
        assert!(picture[7].starts_with("               2    3") && picture[7].ends_with("12   13 s"), "{}", picture[7]);
    }
}
