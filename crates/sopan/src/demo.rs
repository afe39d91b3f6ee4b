//! What is sopan good for? Ten seconds in which the same programs ask the same API without it and through it.
//!
//! [`stage`] plays it, for real; [`story`] is what is played and the facts that come of it. From those facts alone
//! [`picture`] draws what a terminal shows, [`lines`] tells it to whatever else standard output is, and [`table`] sums it up.
//! What is shown stays where it was printed: no other screen and no hidden cursor, so nothing has to be put back when it is
//! interrupted.

mod lines;
mod picture;
mod programs;
mod screen;
mod stage;
mod story;
mod table;

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::runtime;

use crate::config;
use screen::Screen;
use stage::Stage;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why it did not come to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The machine is out of something, and nothing was shown.
    Setup(anyhow::Error),
    /// Standard output cannot be written to.
    Output(anyhow::Error),
    /// SIGINT came.
    Interrupted,
}

/// Plays it once.
///
/// # Errors
/// It did not come to its end. That nobody reads on is no error.
pub(crate) fn run(show: config::Demo) -> Result<(), Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("no runtime");
    let shown = runtime.map_err(Failure::Setup)?.block_on(async {
        tokio::select! {
            // The signal is listened to before anything is shown.
            biased;
            () = interrupted() => Err(Failure::Interrupted),
            shown = play(show) => shown,
        }
    });
    if let (Err(Failure::Interrupted), config::Demo::Picture { .. }) = (&shown, show) {
        // The terminal has written `^C` where the prompt would come.
        let _ = writeln!(io::stdout());
    }
    shown
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the program by itself.
        std::future::pending().await
    }
}

async fn play(show: config::Demo) -> Result<(), Failure> {
    let stage = Stage::begin().map_err(Failure::Setup)?;
    match watch(&stage, show).await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| Failure::Output(anyhow!("standard output cannot be written to: {error}"))),
    }
}

/// Shows what happens until it is over, and what it comes to.
async fn watch(stage: &Stage, show: config::Demo) -> io::Result<()> {
    let mut screen = Screen::new(io::stdout(), show);
    screen.say(&story::opening())?;
    loop {
        let facts = stage.facts();
        screen.show(&facts, screen::size())?;
        if facts.is_over() {
            screen.say(&table::sum(&facts))?;
            return screen.say(&story::closing());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
