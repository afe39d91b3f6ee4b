//! Lines on their way to whoever reads the log, who may be slow, or nobody.
//!
//! A thread writes them, many at once where there are many. Who has something to tell never waits for it: with so many lines
//! or bytes under way that no more fit, a line is lost, and counted. Nor is the thread woken for every line: while lines
//! keep coming it looks again after [`PAUSE`], and only then waits to be told.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use super::Form;
use super::access::Access;

/// Lines that wait to be written.
pub(super) const LINES_WAITING_MAX: usize = 16_384;
/// What they may hold of memory: some have a target of 64 KiB.
const BYTES_WAITING_MAX: usize = 16 * 1024 * 1024;
/// How long lines are gathered while they keep coming.
const PAUSE: Duration = Duration::from_millis(5);
/// What is written at once, about.
const WRITE_MAX: usize = 64 * 1024;
/// How long the end waits for what is still to be written.
const END_MAX: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Debug)]
pub(super) enum Entry {
    /// A line, with its end.
    Line(Vec<u8>),
    /// An exchange, of which a line is to be made.
    Access(Box<Access>),
    /// The last of them was before.
    End,
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Access(access) => access.bytes(),
            Self::End => 0,
        }
    }
}

/// Takes lines.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

/// Writes what still waits when it is dropped, for about a second at most.
#[derive(Debug)]
pub(super) struct Writing {
    queue: Queue,
    ended: Receiver<()>,
}

impl Queue {
    /// A queue, and who writes what comes through it, in this form.
    pub(super) fn start(to: impl Write + Send + 'static, form: Form) -> io::Result<(Self, Writing)> {
        let (sender, entries) = sync_channel(LINES_WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let queue = Self { entries: sender, waiting: Arc::default(), lost: Arc::default() };
        let waiting = Arc::clone(&queue.waiting);
        thread::Builder::new().name("sopan-log".to_owned()).spawn(move || {
            write(&entries, &waiting, to, form);
            let _ = end.try_send(());
        })?;
        Ok((queue.clone(), Writing { queue, ended }))
    }

    /// Adds a line, if there is room.
    pub(super) fn put(&self, entry: Entry) {
        let bytes = entry.bytes();
        if self.waiting.fetch_add(bytes, Relaxed) + bytes > BYTES_WAITING_MAX || self.entries.try_send(entry).is_err() {
            self.waiting.fetch_sub(bytes, Relaxed);
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lines that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Whatever formats a line writes it at once.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(Entry::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let deadline = Instant::now() + END_MAX;
        // It may be full, of lines that nobody reads.
        while let Err(TrySendError::Full(_)) = self.queue.entries.try_send(Entry::End) {
            if Instant::now() >= deadline {
                return;
            }
            thread::sleep(PAUSE);
        }
        let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Writes what comes, to the end.
fn write(entries: &Receiver<Entry>, waiting: &AtomicUsize, mut to: impl Write, form: Form) {
    let mut lines = String::new();
    let mut bytes = Vec::new();
    loop {
        let Ok(first) = entries.recv() else { return };
        let mut next = Some(first);
        // While lines keep coming the thread sleeps between looks, and nobody has to wake it.
        while let Some(entry) = next.take() {
            waiting.fetch_sub(entry.bytes(), Relaxed);
            match entry {
                Entry::Line(line) => bytes.extend_from_slice(&line),
                Entry::Access(access) => {
                    access.write(&mut lines, form);
                    bytes.extend_from_slice(lines.as_bytes());
                    lines.clear();
                }
                Entry::End => {
                    put_out(&mut to, &mut bytes);
                    return;
                }
            }
            next = entries.try_recv().ok();
            if next.is_none() || bytes.len() >= WRITE_MAX {
                put_out(&mut to, &mut bytes);
            }
            if next.is_none() {
                thread::sleep(PAUSE);
                next = entries.try_recv().ok();
            }
        }
    }
}

/// Nobody can be told that standard error is closed.
fn put_out(to: &mut impl Write, bytes: &mut Vec<u8>) {
    let _ = to.write_all(bytes).and_then(|()| to.flush());
    bytes.clear();
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::config::Format;
    use crate::log::access::tests::numbered;

    const FORM: Form = Form { format: Format::Text, ansi: false, name_width: 0 };

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Nobody reads it until the other end is dropped.
    struct Unread(Receiver<()>);

    impl Write for Unread {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_the_order_in_which_they_are_told_and_to_the_last() {
        let paper = Paper::default();
        let (queue, writing) = Queue::start(paper.clone(), FORM).unwrap();
        for number in 0..5_000 {
            queue.put(Entry::Access(Box::new(numbered(2 * number))));
            queue.put(Entry::Line(format!("{} bytes; told\n", 2 * number + 1).into_bytes()));
            if number == 2_500 {
                // It rests, and has to be woken.
                thread::sleep(4 * PAUSE);
            }
        }
        drop(writing);
        let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let number =
            |line: &str| line.split(" bytes; ").next().unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        assert!(written.lines().map(number).eq(0..10_000), "{written}");
        assert_eq!((queue.lost(), queue.waiting.load(Relaxed)), (0, 0));
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_not_read() {
        let (read, unread) = channel();
        let (queue, writing) = Queue::start(Unread(unread), FORM).unwrap();
        let told = 2 * LINES_WAITING_MAX as u64;
        (0..told).for_each(|number| queue.put(Entry::Access(Box::new(numbered(number)))));
        // Those that it has taken to write them at once are under way too.
        assert!(queue.lost() > 0 && queue.lost() <= LINES_WAITING_MAX as u64, "{}", queue.lost());
        drop(read);
        drop(writing);
    }

    #[test]
    fn long_lines_are_bounded_by_their_bytes() {
        let (read, unread) = channel();
        let (queue, writing) = Queue::start(Unread(unread), FORM).unwrap();
        let megabyte = || Entry::Line(vec![b'x'; 1024 * 1024]);
        (0..20).for_each(|_| queue.put(megabyte()));
        // One or none is being written.
        assert!((3..=4).contains(&queue.lost()), "{}", queue.lost());
        drop(read);
        drop(writing);
    }
}
