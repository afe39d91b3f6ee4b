//! Programs of others go through sopan unchanged but for their base URL.
//!
//! Each section of docs/recipes.md is run after the blocks that stand before the first one: an API with limits and sopan in
//! front of it. What the page prints is compared; here it is also asked that nobody but sopan met a 429, and that the same
//! program fails where it asks the API itself.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use super::page::{Does, Page};
use super::session::{FAKE, Session, Through, python};
use super::{RECIPES, pages};
use crate::support::skipped;

/// What the Python of the recipes has; the list is left beside it when it is installed.
const PYTHON: &str = include_str!("../../data/recipes.txt");

/// What the page shows of a program, and what it takes to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Makes at least so many requests, and would fail without sopan.
    Program { requests: usize, needs: Need },
    /// Says by itself what it shows.
    Shows { needs: Need },
    /// Nothing in it is run.
    Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Curl,
    Python,
    Node,
}

const SECTIONS: [(&str, Kind); 10] = [
    ("curl", Kind::Program { requests: 12, needs: Need::Curl }),
    ("Python: requests", Kind::Program { requests: 12, needs: Need::Python }),
    ("Python: httpx", Kind::Program { requests: 24, needs: Need::Python }),
    ("Python: openai", Kind::Program { requests: 8, needs: Need::Python }),
    ("Python: dlt", Kind::Program { requests: 12, needs: Need::Python }),
    ("JavaScript: fetch in Node", Kind::Program { requests: 12, needs: Need::Node }),
    ("Go: net/http", Kind::Reads),
    ("An API that says nothing of caches", Kind::Shows { needs: Need::Curl }),
    ("GitHub, and others that do not count a 304", Kind::Shows { needs: Need::Curl }),
    ("Callers that do not wait so long", Kind::Shows { needs: Need::Curl }),
];

impl Need {
    fn is_there(self) -> bool {
        let starts = |program: &str| {
            let mut asked = Command::new(program);
            asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().is_ok_and(|status| status.success())
        };
        // Whatever a recipe needs, what is said at its end is asked with curl.
        starts("curl")
            && match self {
                Self::Curl => true,
                Self::Python => fs::read_to_string(python().join("installed")).is_ok_and(|list| list == PYTHON),
                Self::Node => starts("node"),
            }
    }
}

/// What the log of the API and sopan's own figures say when a program has ended.
const LAST: &str = "curl -sf http://127.0.0.1:8765/_fake/log -o log
    curl -sf http://127.0.0.1:8001/metrics -o metrics
";

/// # Errors
/// What is not as it should be.
fn check(page: &Page, section: &str, kind: Kind) -> Result<(), String> {
    let (before, blocks) = page.prepared(section);
    let session = || Session::new(&page.name);
    match kind {
        Kind::Reads => {
            let is_read = |does: &Does| matches!(does, Does::Shown { .. } | Does::Look);
            let all = blocks.iter().all(|block| is_read(&block.does));
            if all { Ok(()) } else { Err(format!("{section}: there is something to run after all")) }
        }
        Kind::Shows { .. } => session().run_prepared(&before, &blocks).map(|_| ()),
        Kind::Program { requests, .. } => {
            let done = session().then(LAST).run_prepared(&before, &blocks)?;
            let log: serde_json::Value = serde_json::from_str(&done.read("log")).unwrap();
            let statuses = log.as_array().unwrap().iter().map(|entry| entry["status"].as_u64().unwrap());
            let statuses: Vec<_> = statuses.collect();
            let is_polite = statuses.first() == Some(&429) && statuses[1..].iter().all(|status| *status == 200);
            let metrics = done.read("metrics");
            const REFUSED: &str = "sopan_exchanges_total{upstream=\"default\",status=\"4xx\"} ";
            let told = metrics.lines().find_map(|line| line.strip_prefix(REFUSED));
            if !is_polite || statuses.len() <= requests || told != Some("0") {
                return Err(format!(
                    "{section}: the API answers {statuses:?}, and sopan counts {told:?} answers of 4xx"
                ));
            }
            match session().through(Through::Nothing).run_prepared(&before, &blocks) {
                Ok(_) => Err(format!("{section}: it needs no sopan (port {FAKE} does as well)")),
                Err(seen) if !seen.contains("429") => {
                    Err(format!("{section}: without sopan it fails otherwise: {seen}"))
                }
                Err(_) => Ok(()),
            }
        }
    }
}

/// Two at a time: they mostly wait, but Python starts slowly.
#[test]
fn each_program_needs_only_another_base_url() {
    let page = pages().into_iter().find(|page| page.name == RECIPES).unwrap();
    assert_eq!(page.sections, SECTIONS.map(|(section, _)| section));
    let (ready, lacking): (Vec<_>, Vec<_>) = SECTIONS.into_iter().partition(|(_, kind)| match kind {
        Kind::Program { needs, .. } | Kind::Shows { needs } => needs.is_there(),
        Kind::Reads => true,
    });
    let (queue, failures) = (Mutex::new(ready), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((section, kind)) = { queue.lock().unwrap().pop() } {
                    if let Err(seen) = check(&page, section, kind) {
                        failures.lock().unwrap().push(seen);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for (section, kind) in lacking {
        skipped(&format!("{RECIPES}, {section}: what it needs is not installed ({kind:?}); ./test.sh installs it"));
    }
}
