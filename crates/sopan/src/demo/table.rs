//! What it comes to, side by side.

use std::time::Duration;

use super::story::{Facts, Side};

/// The table. What happened on neither side has no row, but for what everybody looks for.
pub(super) fn sum(facts: &Facts) -> Vec<String> {
    let count = |what, of: fn(&Side) -> usize| (what, [of(&facts.without), of(&facts.through)]);
    let counts = [
        (true, count("requests of the programs", |side| side.asked.len())),
        (true, count("  got 200", |side| side.got(200))),
        (true, count("  got 429", |side| side.got(429))),
        (false, count("  got 503", |side| side.got(503))),
        (false, count("  got something else, or no answer", Side::got_else)),
        (true, count("arrivals at the API", |side| side.arrivals.len())),
        (true, count("  refused with 429", |side| side.arrived(429))),
        (false, count("  refused with 503", |side| side.arrived(503))),
    ];
    let counts = counts.into_iter().filter(|(always, (_, both))| *always || both.iter().any(|n| *n > 0));
    let counts = counts.map(|(_, (what, both))| row(what, both.map(|n| n.to_string())));
    let time =
        |what, of: fn(&Side) -> Duration| row(what, [&facts.without, &facts.through].map(|side| seconds(of(side))));
    let times = [time("longest wait for an answer", Side::longest), time("time until the last answer", Side::last)];
    let head = row("", ["without sopan", "through sopan"].map(str::to_owned));
    [String::new(), head].into_iter().chain(counts).chain(times).collect()
}

fn row(what: &str, [without, through]: [String; 2]) -> String {
    format!("{what:<36}{without:>16}{through:>16}")
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::story::{Arrival, Asked, Ended};
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Requests with when they were sent, when they ended, and with what; and what arrived.
    fn side(asked: &[(u64, u64, Option<u16>)], arrived: &[u16]) -> Side {
        let ended = |at, status| Some(Ended { at: ms(at), status });
        let asked = asked.iter().map(|(at, end, status)| Asked { at: ms(*at), ended: ended(*end, *status) });
        let arrivals = arrived.iter().map(|status| Arrival { at: ms(0), status: *status });
        Side { asked: asked.collect(), arrivals: arrivals.collect() }
    }

    #[test]
    fn both_sides_stand_beside_each_other() {
        let without = side(&[(0, 10, Some(200)), (10, 60, Some(429)), (20, 30, None)], &[200, 429]);
        let through = side(&[(0, 10, Some(200)), (10, 2060, Some(200))], &[200, 200, 200]);
        let facts = Facts { without, through, ..Facts::default() };
        let expected = [
            "",
            "                                       without sopan   through sopan",
            "requests of the programs                           3               2",
            "  got 200                                          1               2",
            "  got 429                                          1               0",
            "  got something else, or no answer                 1               0",
            "arrivals at the API                                2               3",
            "  refused with 429                                 1               0",
            "longest wait for an answer                     0.1 s           2.0 s",
            "time until the last answer                     0.1 s           2.1 s",
        ];
        assert_eq!(sum(&facts), expected);
    }
}
