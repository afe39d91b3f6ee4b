//! Where it is shown: a terminal on which a picture is drawn again and again, or anything that takes lines.
//!
//! A picture has one size. Where the terminal has become too small for it, it would be broken over lines and moving up to
//! its beginning would go wrong, so lines go on from there. Each picture is one write, that none is seen half.

use std::fmt::Write as _;
use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use super::lines::Lines;
use super::picture::{self, Ink};
use super::story::Facts;
use crate::config::Demo;

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u16, pub(super) u16);

/// How large the terminal is now; nothing where it does not say.
pub(super) fn size() -> Size {
    tcgetwinsize(io::stdout()).map_or(Size(0, 0), |size| Size(size.ws_col, size.ws_row))
}

/// Shows facts, and says what there is to say.
#[derive(Debug)]
pub(super) struct Screen<W> {
    out: W,
    ink: Option<Ink>,
    /// Lines of the picture that stand above the cursor.
    drawn: usize,
    lines: Lines,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, show: Demo) -> Self {
        let ink = match show {
            Demo::Lines => None,
            Demo::Picture { colours: false } => Some(Ink::Plain),
            Demo::Picture { colours: true } => Some(Ink::Colours),
        };
        Self { out, ink, drawn: 0, lines: Lines::after(&Facts::default()) }
    }

    /// Shows what is new.
    pub(super) fn show(&mut self, facts: &Facts, size: Size) -> io::Result<()> {
        let Some(ink) = self.ink.filter(|_| has_room(size)) else {
            if self.ink.take().is_some() && self.drawn > 0 {
                self.lines = Lines::after(facts);
            }
            let news = self.lines.news(facts);
            return self.say(&news);
        };
        let mut frame = String::new();
        if self.drawn > 0 {
            let _ = write!(frame, "\x1b[{}F", self.drawn);
        }
        let picture = picture::draw(facts, ink);
        self.drawn = picture.len();
        for line in picture {
            // What the last picture had there is wiped away.
            let _ = writeln!(frame, "{line}\x1b[K");
        }
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Says it below of what was shown.
    pub(super) fn say(&mut self, lines: &[impl AsRef<str>]) -> io::Result<()> {
        let text = lines.iter().fold(String::new(), |text, line| text + line.as_ref() + "\n");
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// The cursor stands in the row below, and some terminals go on to the next row when the last column is written.
fn has_room(Size(columns, rows): Size) -> bool {
    usize::from(columns) > picture::WIDTH && usize::from(rows) > picture::HEIGHT
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What is written for facts at these tenths of a second, on a terminal of these sizes.
    fn shown(show: Demo, looks: &[(u64, Size)]) -> String {
        let mut screen = Screen::new(Vec::new(), show);
        for (tenths, size) in looks {
            let facts = Facts { now: Duration::from_millis(tenths * 100), ..Facts::default() };
            screen.show(&facts, *size).unwrap();
        }
        String::from_utf8(screen.out).unwrap()
    }

    const LARGE: Size = Size(80, 24);
    const PICTURE: Demo = Demo::Picture { colours: false };

    #[test]
    fn a_picture_is_drawn_over_the_last_one() {
        let written = shown(PICTURE, &[(1, LARGE), (2, LARGE), (3, LARGE)]);
        let up = format!("\x1b[{}F", picture::HEIGHT);
        let pictures: Vec<_> = written.split(&up).collect();
        assert_eq!(pictures.len(), 3);
        assert!(pictures.iter().all(|picture| picture.matches("\x1b[K\n").count() == picture::HEIGHT), "{written:?}");
    }

    #[test]
    fn lines_go_on_where_the_terminal_is_or_becomes_too_small() {
        let counts = "  0 asked | without  0 got 200,  0 refused | through  0 got 200,  0 wait";
        let line = |tenths: &str| format!(" 0.{tenths} s {counts}\n");
        for size in [Size(78, 24), Size(80, 21), Size(0, 0)] {
            assert_eq!(shown(PICTURE, &[(1, size), (5, size), (6, LARGE)]), line("5"), "{size:?}");
            let written = shown(PICTURE, &[(1, LARGE), (2, size), (5, LARGE), (6, LARGE)]);
            assert!(written.ends_with(&(String::from("\x1b[K\n") + &line("5"))), "{written:?}");
        }
        assert_eq!(shown(Demo::Lines, &[(1, LARGE), (5, LARGE), (9, LARGE)]), line("5"));
    }
}
