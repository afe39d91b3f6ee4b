//! The same as lines, for pipes and files, and for terminals that are too small: one every half second, and what sopan's log
//! says in between.

use std::time::Duration;

use super::story::{Facts, Side};

/// How far lines are apart at least, those of the log aside.
const APART: Duration = Duration::from_millis(500);

/// What has been told already.
#[derive(Debug)]
pub(super) struct Lines {
    /// When the next line is due.
    due: Duration,
    /// How many lines of the log.
    said: usize,
}

impl Lines {
    /// Tells nothing of what happened until then.
    pub(super) fn after(facts: &Facts) -> Self {
        Self { due: next(facts.now), said: facts.said.len() }
    }

    /// What is to be told now.
    pub(super) fn news(&mut self, facts: &Facts) -> Vec<String> {
        let said = facts.said.iter().skip(self.said);
        let mut lines: Vec<_> = said.map(|said| format!("{}  log: {}", time(said.at), said.line)).collect();
        self.said = facts.said.len();
        if facts.now >= self.due || facts.is_over() {
            // What was missed, where somebody was slow to read, is not made up for.
            self.due = next(facts.now);
            lines.push(count(facts));
        }
        lines
    }
}

/// The next half second.
fn next(now: Duration) -> Duration {
    let halves = now.as_millis() / APART.as_millis();
    APART * u32::try_from(halves).map_or(u32::MAX, |halves| halves.saturating_add(1))
}

fn time(at: Duration) -> String {
    format!("{:4.1} s", at.as_secs_f64())
}

/// What the programs have got by now.
fn count(facts: &Facts) -> String {
    let Facts { now, without, through, .. } = facts;
    let refused = |side: &Side| side.asked.len() - side.waiting() - side.got(200);
    let mut line = format!("{} {:>3} asked", time(*now), without.asked.len());
    line += &format!(" | without {:>2} got 200, {:>2} refused", without.got(200), refused(without));
    line += &format!(" | through {:>2} got 200, {:>2} wait", through.got(200), through.waiting());
    match refused(through) {
        0 => line,
        refused => line + &format!(", {refused} refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::{Asked, Ended, Said};
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What a side's programs got, none where they wait.
    fn side(got: &[Option<u16>]) -> Side {
        let ended = |status: &u16| Ended { at: ms(0), status: Some(*status) };
        let asked = got.iter().map(|got| Asked { at: ms(0), ended: got.as_ref().map(ended) });
        Side { asked: asked.collect(), arrivals: Vec::new() }
    }

    #[test]
    fn every_half_second_has_a_line_and_the_log_comes_in_between() {
        let mut facts = Facts::default();
        let mut lines = Lines::after(&facts);
        facts.without = side(&[Some(200), Some(429), Some(503)]);
        facts.through = side(&[Some(200), None, None]);
        let counts = "  3 asked | without  1 got 200,  2 refused | through  1 got 200,  2 wait";
        let log = |at, line: &str| Said { at: ms(at), line: line.to_owned() };
        for (now, said, expected) in [
            (499, vec![], vec![]),
            (500, vec![], vec![format!(" 0.5 s {counts}")]),
            (
                600,
                vec![log(550, "WARN a"), log(560, "WARN b")],
                vec![" 0.6 s  log: WARN a".into(), " 0.6 s  log: WARN b".into()],
            ),
            (2400, vec![], vec![format!(" 2.4 s {counts}")]),
            (2500, vec![log(2499, "INFO c")], vec![" 2.5 s  log: INFO c".to_owned(), format!(" 2.5 s {counts}")]),
        ] {
            facts.now = ms(now);
            facts.said.extend(said);
            assert_eq!(lines.news(&facts), expected, "{now} ms");
        }
        facts.through = side(&[Some(200), Some(503), None]);
        assert!(count(&facts).ends_with("| through  1 got 200,  1 wait, 1 refused"), "{}", count(&facts));
    }
}
