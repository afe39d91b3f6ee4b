//! `sopan top`: what goes on in a sopan that runs, redrawn every second until it is told to stop.
//!
//! The picture is made of what was last told, the size of the terminal and the upstream that is chosen ([`view`]), and of nothing
//! else; the terminal is put back as it was, unless a signal ends this ([`screen`]). Where sopan does not answer, the picture says
//! so and goes on asking, since that is when somebody looks.

mod screen;
mod view;

use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::ask;
use crate::config::Watch;
use screen::{Key, Screen};
use view::View;

/// How often it is drawn anew.
const EVERY: Duration = Duration::from_secs(1);

/// Shows it until `q` is pressed.
///
/// # Errors
/// There is no terminal.
pub(crate) fn run(settings: &Watch, colours: bool) -> anyhow::Result<()> {
    let screen = Screen::open().context("no picture can be drawn; `sopan status` prints the same once")?;
    let mut view = View::new(settings.admin.to_string(), colours);
    loop {
        view.told(ask::state(&settings.admin).map(|(_, state)| state));
        let next = Instant::now() + EVERY;
        loop {
            screen.draw(&view.draw(screen.size()))?;
            match screen.key_until(next)? {
                Some(Key::Quit) => return Ok(()),
                Some(Key::Up) => view.choose_previous(),
                Some(Key::Down) => view.choose_next(),
                Some(Key::Other) => {}
                None => break,
            }
        }
    }
}
