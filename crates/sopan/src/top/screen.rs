//! A terminal that is drawn on, and that hears keys.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize, pub(super) usize);

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    Other,
}

/// The terminal, for as long as this lives; then it is as it was. `reset` helps where a signal has ended the program.
#[derive(Debug)]
pub(super) struct Screen {
    before: Termios,
}

/// Another page, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(io::Error::other("standard input and output are no terminal"));
        }
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let screen = Self { before };
        write(ENTER)?;
        Ok(screen)
    }

    pub(super) fn size(&self) -> Size {
        tcgetwinsize(io::stdout()).map_or(Size(80, 24), |size| Size(size.ws_col.into(), size.ws_row.into()))
    }

    /// Draws these lines, and wipes what was there before.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        write(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }

    /// The next key; none if none is pressed until then.
    pub(super) fn key_until(&self, then: Instant) -> io::Result<Option<Key>> {
        let left = then.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            // Its size has changed, say.
            Err(rustix::io::Errno::INTR) => return Ok(Some(Key::Other)),
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 16];
        let count = stdin.lock().read(&mut bytes)?;
        Ok(Some(key(&bytes[..count])))
    }
}

/// What was pressed. Nothing at all means that the terminal is gone.
fn key(bytes: &[u8]) -> Key {
    const INTERRUPT: u8 = 3;
    match bytes {
        [] | [b'q' | b'Q' | INTERRUPT, ..] => Key::Quit,
        // Escape alone; keys that have no letter begin with it.
        [0x1b] => Key::Quit,
        [b'k', ..] | [0x1b, b'[' | b'O', b'A', ..] => Key::Up,
        [b'j', ..] | [0x1b, b'[' | b'O', b'B', ..] => Key::Down,
        _ => Key::Other,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to put back.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        for (bytes, expected) in [
            (&b"q"[..], Key::Quit),
            (b"\x03", Key::Quit),
            (b"\x1b", Key::Quit),
            (b"", Key::Quit),
            (b"\x1b[A", Key::Up),
            (b"\x1bOA", Key::Up),
            (b"k", Key::Up),
            (b"\x1b[B", Key::Down),
            (b"j", Key::Down),
            (b"\x1b[C", Key::Other),
            (b"x", Key::Other),
        ] {
            assert_eq!(key(bytes), expected, "{bytes:?}");
        }
    }
}
