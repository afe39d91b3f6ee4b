//! The picture: all upstreams, one of them closer, and what happened last, in as many lines as there are.

use super::screen::Size;
use crate::admin::state::{Client, Limit, State, Upstream};
use crate::ask::Unknown;
use crate::log::Printable;
use crate::status::{heading, line_of, rows, span};

/// What is shown, and of which upstream most.
#[derive(Debug)]
pub(super) struct View {
    at: String,
    colours: bool,
    state: Option<State>,
    /// Why the last one is not told any more.
    unknown: Option<String>,
    chosen: usize,
}

/// Columns of the bar of a limit.
const BAR: usize = 20;
/// Of that many rows upstreams take this many at most; then they are scrolled.
const UPSTREAMS_SHARE: usize = 3;

impl View {
    pub(super) fn new(at: String, colours: bool) -> Self {
        Self { at, colours, state: None, unknown: None, chosen: 0 }
    }

    /// What was told, or why nothing was.
    pub(super) fn told(&mut self, told: Result<State, Unknown>) {
        match told {
            Ok(state) => {
                self.chosen = self.chosen.min(state.upstreams.len().saturating_sub(1));
                (self.state, self.unknown) = (Some(state), None);
            }
            Err(unknown) => self.unknown = Some(unknown.to_string()),
        }
    }

    pub(super) fn choose_next(&mut self) {
        let last = self.state.as_ref().map_or(0, |state| state.upstreams.len().saturating_sub(1));
        self.chosen = (self.chosen + 1).min(last);
    }

    pub(super) fn choose_previous(&mut self) {
        self.chosen = self.chosen.saturating_sub(1);
    }

    /// All lines, none longer than there is room for.
    pub(super) fn draw(&self, Size(columns, height): Size) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(unknown) = &self.unknown {
            lines.push(self.paint("31", &fit(&format!("NOT ANSWERING: {}", Printable(unknown)), columns)));
        }
        if let Some(state) = &self.state {
            lines.push(self.paint("1", &fit(&heading(state, &self.at), columns)));
            lines.push(String::new());
            self.upstreams(state, columns, height / UPSTREAMS_SHARE, &mut lines);
            if let Some(upstream) = state.upstreams.get(self.chosen) {
                lines.push(String::new());
                lines.extend(closer(upstream).iter().map(|line| fit(line, columns)));
            }
            lines.push(String::new());
            let room = height.saturating_sub(lines.len() + 1);
            lines.extend(state.exchanges.iter().take(room).map(|exchange| fit(&line_of(exchange), columns)));
        }
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), String::new());
        lines.push(self.paint("2", &fit("q quits, up and down choose an upstream", columns)));
        lines.truncate(height);
        lines
    }

    /// The table, with the chosen one marked and in sight.
    fn upstreams(&self, state: &State, columns: usize, room: usize, lines: &mut Vec<String>) {
        let mut rows = rows(state).into_iter().map(|row| fit(&format!("  {row}"), columns));
        lines.extend(rows.next().map(|names| self.paint("2", &names)));
        let room = room.max(3);
        let first = self.chosen.saturating_sub(room - 1);
        for (number, row) in rows.enumerate().skip(first).take(room) {
            let is_chosen = number == self.chosen && state.upstreams.len() > 1;
            lines.push(if is_chosen { self.paint("7", &row.replacen(' ', ">", 1)) } else { row });
        }
    }

    fn paint(&self, how: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{how}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One upstream: its limits, and who waits.
fn closer(upstream: &Upstream) -> Vec<String> {
    let name = Printable(&upstream.name);
    let mut lines: Vec<_> = upstream.limits.iter().take(4).map(limit).collect();
    if let Some(empty) = upstream.empty_in_s {
        lines.push(format!("at this rate a quota of {name} is used up in {}", span(empty)));
    }
    let who: Vec<_> = upstream.queue.clients.iter().take(4).map(client).collect();
    if !who.is_empty() {
        let more = upstream.queue.clients_total.saturating_sub(who.len() as u64);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        lines.push(format!("waiting: {}{more}", who.join(", ")));
    }
    lines
}

/// `10/s burst 20  [####                ] 4 of 19`
fn limit(limit: &Limit) -> String {
    let share = (limit.free / limit.capacity).clamp(0.0, 1.0);
    let full = if share.is_nan() { 0 } else { (share * BAR as f64).floor() as usize };
    let bar = "#".repeat(full) + &" ".repeat(BAR - full);
    format!(
        "{:<24} [{bar}] {:.0} of {:.0} free",
        Printable(&limit.limit).to_string(),
        limit.free.floor(),
        limit.capacity
    )
}

fn client(client: &Client) -> String {
    format!("{} {} ({})", Printable(&client.name), client.waiting, span(client.wait_s))
}

/// What of a line there is room for.
fn fit(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        serde_json::from_str(include_str!("../admin/state/sample.json")).unwrap()
    }

    fn view() -> View {
        let mut view = View::new("127.0.0.1:8001".to_owned(), false);
        view.told(Ok(state()));
        view
    }

    #[test]
    fn it_fits_into_every_terminal_and_says_most_in_a_usual_one() {
        for (columns, height) in [(80, 24), (200, 60), (40, 10), (10, 3), (1, 1), (0, 0)] {
            let lines = view().draw(Size(columns, height));
            assert_eq!(lines.len(), height);
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}x{height}: {lines:#?}");
        }
        let picture = view().draw(Size(80, 24)).join("\n");
        for part in [
            "sopan 0.1.0 at 127.0.0.1:8001, up 108 s",
            "> shop             0/s      9.9/s  31",
            "  mail (observed)  0/s",
            "5000 per 1h              [################    ] 4021 of 5000 free",
            "at this rate a quota of shop is used up in 7 min",
            "waiting: etl 24 (3.1 s), 10.0.0.7 6 (2.1 s), header x-team #3fa2 1 (500 ms)",
            "200  5.3 s GET  /shop/orders?page=2&key=…  etl: waited 3.2 s for a token",
            "q quits",
        ] {
            assert!(picture.contains(part), "{part} is missing in\n{picture}");
        }
    }

    #[test]
    fn the_chosen_one_stays_in_sight() {
        let mut many = state();
        let shop = many.upstreams[0].clone();
        many.upstreams = (0..30).map(|number| Upstream { name: format!("api-{number}"), ..shop.clone() }).collect();
        let mut view = view();
        view.told(Ok(many));
        view.choose_previous();
        for number in 0..30 {
            let picture = view.draw(Size(80, 24)).join("\n");
            assert!(picture.contains(&format!("> api-{number} ")), "{picture}");
            view.choose_next();
        }
        // There is none beyond the last one, and when there are fewer it is one of those.
        view.choose_next();
        assert_eq!(view.chosen, 29);
        view.told(Ok(state()));
        assert_eq!(view.chosen, 1);
        assert!(view.draw(Size(80, 24)).join("\n").contains("> mail"));
    }

    #[test]
    fn where_it_does_not_answer_that_is_said_above_what_was_known() {
        let mut view = view();
        view.told(Err(Unknown::Refused { at: "127.0.0.1:8001".to_owned(), why: "it wants a secret".to_owned() }));
        let lines = view.draw(Size(80, 24));
        assert!(lines[0].starts_with("NOT ANSWERING: 127.0.0.1:8001: it wants a secret"), "{lines:#?}");
        assert!(lines[1].starts_with("sopan 0.1.0"), "{lines:#?}");
        let mut never = View::new(String::new(), true);
        never.told(Err(Unknown::Refused { at: String::new(), why: "x".to_owned() }));
        assert!(never.draw(Size(80, 24))[0].starts_with("\x1b[31mNOT ANSWERING"));
    }
}
