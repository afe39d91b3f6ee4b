//! Who plays: an API for each side, both alike, sopan in front of one of them, and the programs.
//!
//! All of it is real and speaks over sockets of this machine. sopan runs as `sopan serve` does, on threads of its own; the
//! APIs and the programs have another one, so that whoever looks on can be as slow as they like. sopan's log comes here too,
//! instead of to standard error.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, mpsc as channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use parking_lot::Mutex;
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use sopan_fake::FakeApi;
use tokio::sync::mpsc;

use super::programs::Programs;
use super::story::{self, Arrival, CLOSED_FOR, CLOSES_AT, Facts, Said, Side};
use crate::{admin, config, log, serve};

/// A play that goes on until this is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    clock: Clock,
    zero: Instant,
    without: Cast,
    through: Cast,
    notes: Notes,
    _threads: [Running; 2],
}

/// One side: an API, and the programs that ask it.
#[derive(Debug, Clone)]
struct Cast {
    api: Arc<FakeApi>,
    programs: Arc<Programs>,
}

impl Stage {
    /// Begins.
    ///
    /// # Errors
    /// The machine is out of something.
    pub(super) fn begin() -> anyhow::Result<Self> {
        let limit = story::limit();
        let mut settings = config::demo_api(&limit)?.settings;
        // So that its log counts from its start, which is that of the play.
        settings.wall_start = Some(SystemTime::UNIX_EPOCH);
        let (clock, [without, through]) = (Clock::system(), [listen()?, listen()?]);
        let notes = Notes { clock, lines: Arc::default() };
        log::start_into(notes.writer());
        let (proxy, serving) = serve_in_front_of(through.local_addr()?, &limit)?;

        let zero = clock.now();
        let cast = |asked: SocketAddr| Cast {
            api: FakeApi::new(settings.clone()),
            programs: Programs::new(asked, clock, zero),
        };
        let (one, other) = (cast(without.local_addr()?), cast(proxy));
        let both = [(one.clone(), without), (other.clone(), through)];
        let playing = play(both, clock.tokio(zero.after(CLOSES_AT)))?;
        Ok(Self { clock, zero, without: one, through: other, notes, _threads: [playing, serving] })
    }

    /// What has happened until now.
    pub(super) fn facts(&self) -> Facts {
        Facts {
            now: self.clock.now().since(self.zero),
            without: self.without.side(),
            through: self.through.side(),
            said: self.notes.since(self.zero),
        }
    }
}

impl Cast {
    fn side(&self) -> Side {
        let log = self.api.log().into_iter();
        let arrivals =
            log.filter_map(|entry| Some(Arrival { at: Duration::from_micros(entry.at_us), status: entry.status? }));
        Side { asked: self.programs.asked(), arrivals: arrivals.collect() }
    }
}

/// A thread that ends soon after its other end is dropped.
#[derive(Debug)]
struct Running {
    end: Option<mpsc::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(name: &str, run: impl FnOnce(mpsc::Receiver<Infallible>) + Send + 'static) -> anyhow::Result<Self> {
        let (end, ended) = mpsc::channel(1);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(ended));
        Ok(Self { end: Some(end), thread: Some(thread.context("a thread cannot be started")?) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end = None;
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn listen() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port can be listened on")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts sopan, and answers with where it listens once it does.
fn serve_in_front_of(api: SocketAddr, limit: &str) -> anyhow::Result<(SocketAddr, Running)> {
    let settings = config::demo_proxy(api, limit)?;
    let (tell, told) = channel::channel();
    let running = Running::start("demo-sopan", move |end| {
        let metrics = admin::Metrics::new(settings.upstreams.iter().map(|served| served.name.clone()), None);
        let ready = tell.clone();
        let served = serve::run_within(settings, metrics, end, move |address| drop(ready.send(Ok(address))));
        // Nobody listens any more where it has started; it fails only before that.
        drop(served.map_err(|error| tell.send(Err(error))));
    })?;
    let address = told.recv().context("sopan has ended before it listened")??;
    Ok((address, running))
}

/// Opens the APIs, lets all programs ask, and closes the APIs for a moment.
fn play(sides: [(Cast, TcpListener); 2], closes_at: tokio::time::Instant) -> anyhow::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Running::start("demo-stage", move |mut end| {
        runtime.block_on(async {
            let apis = sides.each_ref().map(|(cast, _)| Arc::clone(&cast.api));
            for (cast, listener) in sides {
                // It listens already, and has only to be watched by this runtime.
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::spawn(cast.api.serve(listener, std::future::pending()));
                tokio::spawn(cast.programs.run());
            }
            if tokio::time::timeout_at(closes_at, end.recv()).await.is_err() {
                apis.iter().for_each(|api| api.close_for(CLOSED_FOR));
                end.recv().await;
            }
        });
    })
}

/// What sopan's log says, in memory.
#[derive(Debug, Clone)]
struct Notes {
    clock: Clock,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Notes {
    /// Far more than is said in such a time, unless something is very wrong.
    const LINES_MAX: usize = 1000;

    fn writer(&self) -> impl Fn() -> Self + Send + Sync + 'static {
        let this = self.clone();
        move || this.clone()
    }

    fn since(&self, zero: Instant) -> Vec<Said> {
        let lines = self.lines.lock();
        let of_the_play = lines.iter().filter(|(at, _)| *at >= zero);
        of_the_play.map(|(at, line)| Said { at: at.since(zero), line: line.clone() }).collect()
    }
}

impl io::Write for Notes {
    /// One line at a time, which is how they come.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.lock();
        if lines.len() < Self::LINES_MAX {
            let text = String::from_utf8_lossy(line);
            // Its own time is told otherwise.
            let text = text.trim_end().split_once(' ').map_or("", |(_, rest)| rest);
            lines.push((self.clock.now(), text.to_owned()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
