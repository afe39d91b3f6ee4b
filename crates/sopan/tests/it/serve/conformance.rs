//! The conformance cases against the real program: what it does with every message that HTTP allows or forbids.

use std::time::Duration;

use sopan_fake::conformance::{Judge, Suite, cases};
use tokio::net::TcpListener;

use super::door::{Background, Serve};
use crate::support::PATIENCE;

/// One worker, so that a connection to the upstream could be used again by whoever comes next.
const FLAGS: &[&str] =
    &["--rate unlimited", "--max-retries 0", "--breaker off", "--max-hold 1ms", "--workers 1", "--header-timeout 2s"];

/// The whole takes this long at most, with an answer that never comes in some of the cases.
const ALL: Duration = Duration::from_secs(150);

#[test]
fn every_case_of_the_conformance_suite_holds() {
    let background = Background::start();
    let suite = background.run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Suite::listen_on(listener, PATIENCE, Judge::Strict)
    });
    let proxy = Serve::start(&format!("http://{}", suite.upstream()), FLAGS);
    let told = background.run_within(ALL, async {
        let mut told = Vec::new();
        for case in cases() {
            let outcome = suite.run(&case, proxy.address).await.unwrap();
            if !outcome.faults.is_empty() {
                let faults = outcome.faults.join("; ");
                told.push(format!("{} ({}): {}: {faults}\n{}", case.id, case.section, case.claim, outcome.seen));
            }
        }
        told
    });
    assert!(told.is_empty(), "{} of {} cases do not hold:\n{}", told.len(), cases().len(), told.join("\n"));
}
