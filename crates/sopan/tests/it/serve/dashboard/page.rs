//! What stands on the page, held against the state of which it says that it shows it.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value as Json;

use super::browser::Browser;
use crate::support::{PATIENCE, until};

/// All that is told at `/events`, by its number.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<HashMap<u64, Json>>>);

impl Told {
    /// Reads for as long as there is something.
    pub(super) fn by(admin: SocketAddr) -> Self {
        let told = Self::default();
        let mut socket = TcpStream::connect(admin).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(socket, "GET /events HTTP/1.0\r\nHost: {admin}\r\n\r\n").unwrap();
        let kept = told.clone();
        thread::spawn(move || {
            let mut number = None;
            for line in BufReader::new(socket).lines().map_while(Result::ok) {
                if let Some(id) = line.strip_prefix("id: ") {
                    number = Some(id.parse().unwrap());
                }
                if let (Some(data), Some(number)) = (line.strip_prefix("data: "), number) {
                    kept.0.lock().unwrap().insert(number, serde_json::from_str(data).unwrap());
                }
            }
        });
        until(|| told.newest());
        told
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.0.lock().unwrap().keys().max().copied()
    }

    #[track_caller]
    pub(super) fn state(&self, number: u64) -> Json {
        until(|| self.0.lock().unwrap().get(&number).cloned())
    }
}

/// What each element shows: a path into the state, its text, its value, and how that value is written.
const SHOWN: &str = include_str!("shown.js");

/// Waits until the page shows something that was told, and holds all of it against that; answers with the number of that and
/// which paths were shown, those of rows without their numbers.
#[track_caller]
pub(super) fn agrees(browser: &mut Browser, told: &Told) -> (u64, BTreeSet<String>) {
    let page = browser.js(SHOWN);
    assert_eq!(page["link"], "live", "{page}");
    let number = page["number"].as_u64().unwrap();
    let state = told.state(number);
    let mut paths = BTreeSet::new();
    for one in page["shown"].as_array().unwrap() {
        let (path, text) = (one["path"].as_str().unwrap(), one["text"].as_str().unwrap());
        assert_eq!(one["written"], text, "{path}");
        // What the page concludes is another test's business.
        if path.is_empty() || path.contains("/shown/") {
            continue;
        }
        let expected = look_up(&state, path).unwrap_or_else(|| panic!("{path} is not told"));
        let is_same = match (&one["value"], expected) {
            (Json::Number(value), Json::Number(expected)) => value.as_f64() == expected.as_f64(),
            (Json::Null, Json::Null) => true,
            (Json::Null, Json::String(expected)) => text == expected,
            (Json::Null, Json::Array(story)) => {
                text == story.iter().map(|step| step.as_str().unwrap()).collect::<Vec<_>>().join(" · ")
            }
            _ => false,
        };
        assert!(is_same, "{path} is {expected}, and shown {one}");
        let names = path.split('/').filter(|part| !part.starts_with('#') && part.parse::<u64>().is_err());
        paths.insert(names.collect::<Vec<_>>().join("/"));
    }
    (number, paths)
}

/// As a pointer, but that exchanges are found by their ids, and of nothing all is nothing.
fn look_up<'s>(state: &'s Json, path: &str) -> Option<&'s Json> {
    let Some((id, field)) = path.strip_prefix("/exchanges/#").and_then(|rest| rest.split_once('/')) else {
        let of_nothing = || state.pointer(path.rsplit_once('/')?.0).filter(|outer| outer.is_null());
        return state.pointer(path).or_else(of_nothing);
    };
    let id: u64 = id.parse().ok()?;
    state["exchanges"].as_array()?.iter().find(|exchange| exchange["id"] == id)?.get(field)
}

/// Texts that are hard to read: below 4.5 to 1 against what is behind them (WCAG 2.2, 1.4.3).
pub(super) const FAINT: &str = include_str!("faint.js");
