//! `sopan status`: what goes on in a sopan that runs, once, as a table or as it was told.

use crate::admin::state::{
    Breaker, BreakerState, Cached, Exchange, HeldBy, Queue, Shared, SharedMode, State, Upstream,
};
use crate::ask::{self, Unknown};
use crate::config::Watch;
use crate::log::{Counted, Printable};

/// What is to be printed.
///
/// # Errors
/// It does not answer, or not so.
pub(crate) fn run(settings: &Watch) -> Result<String, Unknown> {
    let (told, state) = ask::state(&settings.admin)?;
    if settings.json {
        return Ok(crate::log::printable_json(&told));
    }
    Ok(table(&state, &settings.admin.to_string()).join("\n") + "\n")
}

/// What is told of each upstream.
const COLUMNS: [&str; 8] = ["upstream", "allowed", "used", "waiting", "wait", "hold", "breaker", "cache"];

fn table(state: &State, at: &str) -> Vec<String> {
    let mut lines = vec![heading(state, at), String::new()];
    lines.extend(rows(state));
    lines
}

/// Which sopan it is, and how it is.
pub(crate) fn heading(state: &State, at: &str) -> String {
    let State { version, connections, draining, log_lines_lost, store, .. } = state;
    let mut heading = format!(
        "sopan {} at {at}, up {}, {} of {} connections",
        Printable(version),
        span(state.uptime_s),
        connections.open,
        connections.max
    );
    if *draining {
        heading += ", DRAINING";
    }
    if let Some(store) = store {
        heading += &format!(", {}", sharing(store));
    }
    if *log_lines_lost > 0 {
        heading += &format!(", {log_lines_lost} log lines lost");
    }
    heading
}

/// With how many the limits are shared, or what this one does since it does not reach them.
fn sharing(store: &Shared) -> String {
    let since = span(store.since_s);
    match store.mode {
        SharedMode::Shared if store.seen == store.counted => {
            format!("shared by {}", Counted(store.seen.into(), "instance"))
        }
        SharedMode::Shared => format!("shared by {} of {} instances", store.seen, store.counted),
        SharedMode::Silent => format!("REDIS GONE for {since}: silent"),
        SharedMode::Alone => format!("REDIS GONE for {since}: alone, 1 of {} parts", store.parts),
        SharedMode::Refuse => format!("REDIS GONE for {since}: refusing"),
        SharedMode::Ignore => format!("REDIS GONE for {since}: taking the whole limit"),
    }
}

/// The names of the columns, and a row for each upstream.
pub(crate) fn rows(state: &State) -> Vec<String> {
    let cells: Vec<_> = std::iter::once(COLUMNS.map(str::to_owned)).chain(state.upstreams.iter().map(row)).collect();
    let widths: [usize; COLUMNS.len()] =
        std::array::from_fn(|at| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; COLUMNS.len()]| {
        let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

fn row(upstream: &Upstream) -> [String; COLUMNS.len()] {
    let Upstream { queue, .. } = upstream;
    let name = Printable(&upstream.name).to_string();
    [
        if upstream.observe { format!("{name} (observed)") } else { name },
        allowed(upstream),
        per_second(upstream.used_per_s),
        queue.waiting.to_string(),
        Some(longest_wait(queue)).filter(|wait| *wait > 0.0).map_or_else(|| "-".to_owned(), span),
        hold(upstream),
        breaker(&upstream.breaker),
        upstream.cache.as_ref().map_or_else(|| "-".to_owned(), hits),
    ]
}

/// A quota that is not used up lets all go that comes, which is not to say that there is no limit.
fn allowed(upstream: &Upstream) -> String {
    let without_rate = if upstream.limits.is_empty() { "unlimited" } else { "at once" };
    upstream.allowed_per_s.map_or_else(|| without_rate.to_owned(), per_second)
}

/// The longest that one more would wait, whoever sends it: a client of whom many wait already waits for those first.
fn longest_wait(queue: &Queue) -> f64 {
    queue.clients.iter().map(|client| client.wait_s).fold(queue.wait_s, f64::max)
}

fn hold(upstream: &Upstream) -> String {
    upstream.hold.map_or_else(
        || "-".to_owned(),
        |hold| match hold.by {
            HeldBy::Upstream => span(hold.ends_in_s),
            HeldBy::Operator => format!("{} by hand", span(hold.ends_in_s)),
        },
    )
}

fn breaker(breaker: &Breaker) -> String {
    match (breaker.state, breaker.half_open_in_s) {
        (BreakerState::Closed, _) => "closed".to_owned(),
        (BreakerState::Open, Some(left)) => format!("OPEN {}", span(left)),
        (BreakerState::Open, None) => "OPEN".to_owned(),
        (BreakerState::HalfOpen, _) => "half-open".to_owned(),
        (BreakerState::Off, _) => "off".to_owned(),
    }
}

/// Of the requests that the cache has a part in, those that needed no whole answer from the upstream.
fn hits(cached: &Cached) -> String {
    let Cached { hit, stale, revalidated, coalesced, miss, .. } = cached;
    let saved = hit + stale + revalidated + coalesced;
    match saved + miss {
        0 => "-".to_owned(),
        all => format!("{:.0} %", saved as f64 / all as f64 * 100.0),
    }
}

/// An exchange in a line: `200  5.3 s GET  /orders?page=…  etl: waited 3.2 s for a token, …`.
pub(crate) fn line_of(exchange: &Exchange) -> String {
    let Exchange { total_s, method, target, client, .. } = exchange;
    let status = exchange.status.map_or_else(|| "---".to_owned(), |status| status.to_string());
    // Nothing takes no time.
    let took = if *total_s < 0.0005 { "<1 ms".to_owned() } else { span(*total_s) };
    let line = format!("{status} {took:>6} {method:<4} {target}  {client}: {}", exchange.story.join(", "));
    Printable(&line).to_string()
}

fn per_second(rate: f64) -> String {
    match rate {
        0.0 => "0/s".to_owned(),
        ..0.1 => format!("{:.1}/h", rate * 3_600.0),
        0.1..10.0 => format!("{rate:.1}/s"),
        _ => format!("{rate:.0}/s"),
    }
}

/// So many seconds in two or three digits: `310 ms`, `1.8 s`, `48 s`, `12 min`, `5 h`, `3 d`.
pub(crate) fn span(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3_600.0;
    const DAY: f64 = 86_400.0;
    match seconds {
        ..0.9995 => format!("{:.0} ms", seconds * 1_000.0),
        0.9995..9.95 => format!("{seconds:.1} s"),
        9.95..120.0 => format!("{seconds:.0} s"),
        120.0..7_200.0 => format!("{:.0} min", seconds / MINUTE),
        7_200.0..172_800.0 => format!("{:.0} h", seconds / HOUR),
        _ => format!("{:.0} d", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sample() -> State {
        serde_json::from_str(include_str!("admin/state/sample.json")).unwrap()
    }

    #[test]
    fn the_table_fits_into_a_terminal_and_says_what_matters() {
        let lines = table(&sample(), "127.0.0.1:8001");
        assert_eq!(
            lines,
            [
                "sopan 0.1.0 at 127.0.0.1:8001, up 108 s, 12 of 10000 connections, shared by 3 of 4 instances",
                "",
                "upstream         allowed  used   waiting  wait   hold   breaker     cache",
                "shop             0/s      9.9/s  31       3.1 s  1.8 s  closed      59 %",
                "mail (observed)  0/s      0/s    0        -      -      OPEN 6.5 s  -",
            ]
        );
        let mut state = sample();
        (state.draining, state.log_lines_lost) = (true, 3);
        state.store.as_mut().unwrap().mode = SharedMode::Alone;
        state.upstreams[0].hold.as_mut().unwrap().by = HeldBy::Operator;
        let lines = table(&state, "127.0.0.1:8001");
        assert!(
            lines[0].ends_with(", DRAINING, REDIS GONE for 108 s: alone, 1 of 5 parts, 3 log lines lost")
                && lines[3].contains("1.8 s by hand"),
            "{lines:?}"
        );
    }

    #[test]
    fn an_exchange_is_a_line_that_cannot_move_the_cursor() {
        let mut exchange = sample().exchanges.remove(0);
        exchange.story.truncate(2);
        assert_eq!(
            line_of(&exchange),
            "200  5.3 s GET  /shop/orders?page=2&key=…  etl: waited 3.2 s for a token, attempt 1"
        );
        exchange.target = "/\u{1b}[2J".to_owned();
        assert!(line_of(&exchange).contains(r"/\u{1b}[2J"));
        exchange.total_s = 0.0;
        assert!(line_of(&exchange).starts_with("200  <1 ms GET "), "{}", line_of(&exchange));
    }

    #[test]
    fn a_quota_that_lasts_is_a_limit_all_the_same() {
        let mut shop = sample().upstreams.remove(0);
        for (limits, allowed_per_s, expected) in [(2, Some(10.0), "10/s"), (2, None, "at once"), (0, None, "unlimited")]
        {
            shop.limits.truncate(limits);
            shop.allowed_per_s = allowed_per_s;
            assert_eq!(allowed(&shop), expected);
        }
    }

    #[test]
    fn spans_and_rates_have_two_or_three_digits() {
        for (seconds, expected) in [
            (0.0, "0 ms"),
            (0.31, "310 ms"),
            (0.9996, "1.0 s"),
            (1.75, "1.8 s"),
            (48.2, "48 s"),
            (119.0, "119 s"),
            (3_600.0, "60 min"),
            (18_000.0, "5 h"),
            (259_200.0, "3 d"),
        ] {
            assert_eq!(span(seconds), expected);
        }
        for (rate, expected) in
            [(0.0, "0/s"), (0.0115, "41.4/h"), (0.5, "0.5/s"), (9.9, "9.9/s"), (100.0, "100/s"), (12_345.6, "12346/s")]
        {
            assert_eq!(per_second(rate), expected);
        }
    }
}
