//! Two hundred clients that ask at the same time, in front of an API that counts as strictly as we may be counted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sopan_fake::{Entry, FakeApi, Limit, Settings, Window};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;

use super::ms;
use crate::serve::door::{Background, Serve};
use crate::serve::wire::request;

/// How long the clients ask.
const SPAN: Duration = ms(4000);
const ADDRESSES: usize = 20;
const PER_ADDRESS: usize = 10;
/// The rate that all modes come to.
const RATE: f64 = 50.0;

/// The fake API within the test, where it can be seen whether it was kept from its work.
struct Judge {
    api: Arc<FakeApi>,
    url: String,
    /// When its runtime stood still, and until when, in microseconds since the epoch.
    stalls: Arc<Mutex<Vec<Range<u64>>>>,
    _background: Background,
}

impl Judge {
    fn start(mode: &Mode) -> Self {
        let background = Background::start();
        let settings = Settings { limits: vec![(mode.limit)()], window: mode.window, ..Settings::default() };
        let api = FakeApi::new(settings);
        let listener = background.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        background.spawn(async { renice(-15) });
        background.spawn(Arc::clone(&api).serve(listener, std::future::pending()));
        let stalls = Arc::<Mutex<Vec<_>>>::default();
        let (seen, room) = (Arc::clone(&stalls), mode.room);
        background.spawn(async move {
            loop {
                let (asleep, since) = (Instant::now(), SystemTime::now());
                tokio::time::sleep(ms(1)).await;
                if asleep.elapsed() > room {
                    seen.lock().unwrap().push(micros(since)..micros(SystemTime::now()));
                }
            }
        });
        Self { api, url, stalls, _background: background }
    }

    /// Whether it was kept from looking when this request came, and so took it for a later one.
    fn was_late_for(&self, entry: &Entry) -> bool {
        /// What has piled up meanwhile is looked at within this time.
        const CATCHES_UP: Duration = ms(10);
        let covers =
            |stall: &Range<u64>| stall.start <= entry.at_us && entry.at_us < stall.end + CATCHES_UP.as_micros() as u64;
        self.stalls.lock().unwrap().iter().any(covers)
    }
}

fn micros(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64
}

/// Asks the system to let this thread run before others, or after them. Who may not is told so and goes on without.
fn renice(by: i32) {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let number = thread.file_name().unwrap().to_str().unwrap();
    let _ = Command::new("renice").args(["-n", &by.to_string(), "-p", number]).output();
}

/// One request: whose it was, and when it was sent.
struct Asked {
    client: usize,
    sent: Instant,
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    /// All requests, by their targets.
    asked: Mutex<BTreeMap<String, Asked>>,
    /// Every status that was not 200.
    wrong: Mutex<Vec<String>>,
}

/// Lets all clients ask again and again. They share one thread and stand back, so that the machine is left to those who are
/// watched.
fn ask_all(address: SocketAddr) -> Arc<Seen> {
    let (seen, background) = (Arc::<Seen>::default(), Background::start());
    background.spawn(async { renice(10) });
    let all = Arc::new(Barrier::new(ADDRESSES * PER_ADDRESS + 1));
    for client in 0..ADDRESSES {
        for connection in 0..PER_ADDRESS {
            let (seen, all) = (Arc::clone(&seen), Arc::clone(&all));
            background.spawn(async move {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::from(([127, 0, 0, 1 + client as u8], 0))).unwrap();
                let socket = socket.connect(address).await.unwrap();
                all.wait().await;
                // Within a few tenths of a second, so that the API can look at the first ones as they come.
                tokio::time::sleep(ms(2) * (client * PER_ADDRESS + connection) as u32).await;
                ask_on(socket, client, connection, &seen).await;
            });
        }
    }
    background.run(all.wait());
    thread::sleep(SPAN + ms(100));
    seen
}

async fn ask_on(mut socket: TcpStream, client: usize, connection: usize, seen: &Seen) {
    for number in 0.. {
        let target = format!("/api/v1/health?{client}-{connection}-{number}");
        let request = request("GET", &target, "");
        seen.asked.lock().unwrap().insert(target, Asked { client, sent: Instant::now() });
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") && !answer.ends_with(b"}\n") {
            assert_ne!(socket.read_buf(&mut answer).await.unwrap(), 0);
        }
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            seen.wrong.lock().unwrap().push(String::from_utf8(answer).unwrap());
        }
    }
}

/// Requests of one client that were sent this much later than another must not arrive before it. Two that are nearer to each
/// other can have changed places before the proxy saw either.
const APART: Duration = ms(100);

fn overtaken(order: &[&Asked]) -> usize {
    let mut latest = BTreeMap::<usize, Instant>::new();
    let mut overtaken = 0;
    for asked in order {
        let latest = latest.entry(asked.client).or_insert(asked.sent);
        overtaken += usize::from(asked.sent + APART < *latest);
        *latest = (*latest).max(asked.sent);
    }
    overtaken
}

/// A mode of the API, and the flags that keep to it.
struct Mode {
    name: &'static str,
    limit: fn() -> Limit,
    window: Window,
    flags: &'static [&'static str],
    /// Whether so many in that span are too many.
    exceeds: fn(usize, Duration) -> bool,
    /// What we leave room for on the way: one token of the bucket, a two-hundredth of the span.
    room: Duration,
}

fn more_than_quota(count: usize, span: Duration) -> bool {
    count > 50 && span < ms(1000)
}

const MODES: [Mode; 3] = [
    Mode {
        name: "bucket",
        limit: || Limit::Rate { tokens: 50, per: ms(1000), burst: 10 },
        window: Window::Bucket,
        flags: &["--rate 50/s", "--burst 10"],
        exceeds: |count, span| count as f64 > 10.0 + RATE * span.as_secs_f64(),
        room: ms(20),
    },
    Mode {
        name: "fixed window",
        limit: || Limit::Quota { count: 50, span: ms(1000) },
        window: Window::Fixed,
        flags: &["--rate 50 per 1s"],
        exceeds: more_than_quota,
        room: ms(5),
    },
    Mode {
        name: "sliding window",
        limit: || Limit::Quota { count: 50, span: ms(1000) },
        window: Window::Sliding,
        flags: &["--rate 50 per 1s"],
        exceeds: more_than_quota,
        room: ms(5),
    },
];

/// A run counts only if the API was there to look at what came. There is an end to that.
const RUNS_MAX: usize = 6;

fn check_mode(mode: &Mode) {
    for _ in 0..RUNS_MAX {
        let judge = Judge::start(mode);
        let proxy = Serve::start(&judge.url, &[mode.flags, &["--max-retries 0"]].concat());
        // As many connections as leave at once come about before it counts, and the limit is full again.
        thread::scope(|threads| {
            let warming: Vec<_> = (0..50).map(|_| threads.spawn(|| proxy.get("/api/v1/health").status())).collect();
            warming.into_iter().for_each(|status| assert_eq!(status.join().unwrap(), 200));
        });
        thread::sleep(ms(1200));
        judge.api.clear_log();
        let seen = ask_all(proxy.address);
        let (asked, wrong) = (seen.asked.lock().unwrap(), seen.wrong.lock().unwrap());
        let entries = judge.api.log();
        match entries.iter().position(|entry| entry.status == Some(429)) {
            None => {
                assert_eq!(*wrong, [""; 0], "{}", mode.name);
                return check_use(mode, &entries, &asked);
            }
            Some(limited) => check_excuse(mode, &judge, &entries[..=limited]),
        }
    }
    panic!("{}: the API was kept from looking in each of {RUNS_MAX} runs", mode.name);
}

/// The last of these was refused. That is not on us if the API was late for the first one of those that were too many together:
/// had it looked when that came, they would not have been. What follows a refusal is not judged.
#[track_caller]
fn check_excuse(mode: &Mode, judge: &Judge, entries: &[Entry]) {
    let refused = entries.last().unwrap();
    let first = (0..entries.len()).filter(|at| {
        let span = Duration::from_micros(refused.at_us - entries[*at].at_us);
        (mode.exceeds)(entries.len() - at, span) && judge.was_late_for(&entries[*at])
    });
    let excuses = first.count();
    println!("{}: refused after {} because of {excuses} that were seen late", mode.name, entries.len());
    assert!(excuses > 0, "{}: 429 at request {} of {entries:?}", mode.name, entries.len());
}

fn check_use(mode: &Mode, entries: &[Entry], asked: &BTreeMap<String, Asked>) {
    let begun = entries[0].at_us;
    let within = |from: u64| {
        let span = from..begun + SPAN.as_micros() as u64;
        entries.iter().filter(|entry| span.contains(&entry.at_us)).map(|entry| &asked[&entry.path]).collect::<Vec<_>>()
    };
    let order = within(begun);
    let used = order.len() as f64 / (RATE * SPAN.as_secs_f64());
    assert!(used >= 0.99, "{}: {used} of the rate was used", mode.name);
    assert_eq!(overtaken(&order), 0, "{}: of {}", mode.name, order.len());
    // What left at once went to whoever came first. All of them wait from when the last has asked, soon but for a machine
    // that is busy with something else, and from then on they do so to the end.
    let is_first = |target: &&String| target.ends_with("-0");
    let last = asked.keys().filter(is_first).map(|target| asked[target].sent).max().unwrap();
    let all_wait = micros(SystemTime::now() - last.elapsed()).max(begun + ms(500).as_micros() as u64);
    let mut shares = [0; ADDRESSES];
    within(all_wait).into_iter().for_each(|asked| shares[asked.client] += 1);
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    // One turn more or less where the span begins, and one where it ends.
    assert!(most - least <= 2, "{}: {shares:?}", mode.name);
}

#[test]
fn a_bucket_is_used_up_by_equal_clients_in_their_order_without_a_single_429() {
    check_mode(&MODES[0]);
}

#[test]
fn a_fixed_window_is_used_up_by_equal_clients_in_their_order_without_a_single_429() {
    check_mode(&MODES[1]);
}

#[test]
fn a_sliding_window_is_used_up_by_equal_clients_in_their_order_without_a_single_429() {
    check_mode(&MODES[2]);
}
