//! Does the cache ever give what it must not, or keep back what it plainly has?
//!
//! Random histories of clients, clock and upstream are played to the core by a `driver` as simple as can be, and each
//! outcome is judged by a `model` that knows the RFCs and nothing of the core. `PROPTEST_CASES` plays more of them.

mod driver;
mod fields;
mod history;
mod model;
mod reading;
mod upstream;

use std::cell::RefCell;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use driver::{Driver, Tally};
use history::{History, histories};

/// A few thousand take some seconds of a debug build.
const CASES: u32 = 3000;

#[test]
fn no_history_makes_the_cache_give_what_the_rfcs_forbid() {
    let tally = RefCell::new(Tally::new());
    let cases = Config::default().cases.max(CASES);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() });
    let outcome =
        runner.run(&histories(), |history| play(&history, &mut tally.borrow_mut()).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\n\n{history:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    assert_reaches_everything(&tally.into_inner());
}

fn play(history: &History, tally: &mut Tally) -> Result<(), String> {
    let mut driver = Driver::new(&history.policy, tally);
    for (number, step) in history.steps.iter().enumerate() {
        driver.run(step).map_err(|why| format!("step {number}: {why}"))?;
    }
    Ok(())
}

/// Histories that go past a decision say nothing of it. Each of these happens a dozen times or more, so that chance alone never
/// leaves one out.
#[track_caller]
fn assert_reaches_everything(tally: &Tally) {
    let expected = [
        "given whole",
        "given for HEAD",
        "given 304",
        "given a part",
        "given parts",
        "given 416",
        "asked behind",
        "not satisfied",
        "stale without upstream",
        "stale without a token",
        "stale on an error",
        "freshened",
        "joined",
        "asked again",
        "asked for what is missing",
        "invalidated",
        "stored",
        "stored a part",
        "forgotten",
        "passed on",
        "cut or too large",
        "given once",
    ];
    for what in expected {
        assert!(tally.contains_key(what), "{what} never happens: {tally:?}");
    }
}
