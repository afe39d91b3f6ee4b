//! The proxy as it runs, and upstreams that a test writes.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use sopan_fake::script::{Answer, Request, Upstream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle as JoinTask;

use super::wire::{Client, Reply};
use crate::support::{PATIENCE, Running, command, get, until};

/// Of what is in force it tells at first: where it listens, and the upstream.
pub(super) const START_LINES: usize = 2;

/// Nobody waits.
pub(super) const UNLIMITED: &[&str] = &["--rate unlimited"];

/// `sopan serve` on ports of its own.
pub(super) struct Serve {
    pub(super) program: Running,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Serve {
    /// Runs in front of this URL. Each flag comes with its value: `--rate 50 per 1s`.
    pub(super) fn start(upstream: &str, flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", upstream, flags)
    }

    pub(super) fn start_at(listen: &str, upstream: &str, flags: &[&str]) -> Self {
        let mut args = vec!["--listen", listen, "--admin", "127.0.0.1:0", "--upstream", upstream];
        args.extend(flags.iter().flat_map(|flag| flag.splitn(2, ' ')));
        Self::run(&args)
    }

    /// Runs with these settings, in YAML.
    pub(super) fn start_with(settings: &str) -> Self {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(&file, settings).unwrap();
        let path = file.path().to_str().unwrap();
        Self::run(&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", path])
    }

    /// Runs with these arguments and no others.
    pub(super) fn run(args: &[&str]) -> Self {
        Self::begin(command(&[&["serve"], args].concat()).stdout(Stdio::null()))
    }

    /// Runs what becomes `sopan serve`, and listens to what it logs.
    pub(crate) fn begin(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (err, kept) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&lines));
        let reader = thread::spawn(move || {
            for line in err.lines() {
                kept.lock().unwrap().push(line.unwrap());
            }
        });
        let mut program = Running(child);
        let first = until(|| {
            assert_eq!(program.0.try_wait().unwrap(), None, "{:?}", lines.lock().unwrap());
            let lines = lines.lock().unwrap();
            // Before them there may be what was known from before.
            let at = lines.iter().position(|line| line.contains("listening on http"))?;
            lines.get(at).filter(|_| lines.len() >= at + START_LINES).cloned()
        });
        let after = |text: &str| {
            let rest = first.split(text).nth(1).unwrap_or_else(|| panic!("{first}"));
            rest.split([' ', '"', ';']).next().unwrap().parse().unwrap()
        };
        let (address, admin) = (after("listening on http://"), after("admin http://"));
        Self { program, address, admin, lines, reader: Some(reader) }
    }

    pub(super) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(super) fn get(&self, target: &str) -> Reply {
        self.connect().get(target)
    }

    /// What has been logged so far, the [`START_LINES`] included.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The lines of a text log with this level, without their times, and without what may not be meant so of the flags.
    pub(super) fn logged(&self, level: &str) -> Vec<String> {
        let said = |line: &String| Some(line.split_once("Z ")?.1.strip_prefix(level)?.strip_prefix(' ')?.to_owned());
        self.lines().iter().filter_map(said).filter(|line| !line.starts_with("--")).collect()
    }

    /// Waits until so many lines with this level have been logged.
    #[track_caller]
    pub(super) fn await_logged(&self, level: &str, count: usize) -> Vec<String> {
        until(|| Some(self.logged(level)).filter(|lines| lines.len() >= count))
    }

    /// The value of a sample on the admin port, named with its labels.
    #[track_caller]
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = get(self.admin, "/metrics").body;
        let sample = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        sample.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until so many requests wait for a turn.
    #[track_caller]
    pub(super) fn await_waiting(&self, count: usize) {
        until(|| (self.metric("sopan_waiting{upstream=\"default\"}") == count as f64).then_some(()));
    }

    /// Waits until so many requests are under way.
    #[track_caller]
    pub(super) fn await_in_flight(&self, count: usize) {
        until(|| (self.metric("sopan_in_flight{upstream=\"default\"}") == count as f64).then_some(()));
    }

    /// Waits until nothing waits and nothing is under way; answers how long that took.
    #[track_caller]
    pub(super) fn await_rest(&self) -> Duration {
        let begun = Instant::now();
        self.await_in_flight(0);
        self.await_waiting(0);
        begun.elapsed()
    }

    /// Processor time used so far.
    pub(super) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.0.id())).unwrap();
        // After the name, which may hold anything: state is the third field, user and system time the 14th and 15th.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // USER_HZ, which is 100 on every Linux.
        Duration::from_millis(ticks * 10)
    }

    /// The memory that it has now, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory_of("VmRSS:")
    }

    /// The most memory that it has had, in bytes.
    pub(super) fn memory_peak(&self) -> u64 {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Waits for its end; answers with all that it logged.
    pub(super) fn wait(&mut self) -> (ExitStatus, Vec<String>) {
        let status = self.program.wait();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status, self.lines())
    }
}

/// A port that is taken, so that nobody else gets it, and on which nobody listens: connections are refused.
pub(super) struct Port {
    socket: OwnedFd,
    pub(super) address: SocketAddr,
}

impl Port {
    pub(super) fn closed() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        Self { socket, address }
    }

    /// From now on they are taken.
    pub(super) fn listen(self) -> TcpListener {
        listen(&self.socket, 1024).unwrap();
        let listener = TcpListener::from(self.socket);
        listener.set_nonblocking(true).unwrap();
        listener
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A runtime of tokio on a thread of its own, for upstreams that need one.
pub(super) struct Background {
    handle: Handle,
    /// Ends it when dropped.
    _stop: oneshot::Sender<()>,
}

impl Background {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(async { drop(stopped.await) }));
        Self { handle, _stop: stop }
    }

    /// Runs something on it to its end.
    #[track_caller]
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_within(PATIENCE, future)
    }

    /// The same for what takes longer.
    #[track_caller]
    pub(super) fn run_within<T>(&self, time: Duration, future: impl Future<Output = T>) -> T {
        self.handle.block_on(async { tokio::time::timeout(time, future).await.expect("it does not come") })
    }

    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> JoinTask<()> {
        self.handle.spawn(future)
    }
}

/// A scripted upstream over real sockets.
pub(super) struct Scripted {
    upstream: Arc<Upstream>,
    background: Background,
}

impl Scripted {
    pub(super) fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let background = Background::start();
        let upstream = Arc::new(background.run(Upstream::listen(script)));
        Self { upstream, background }
    }

    /// Begins to listen on a port that was taken before.
    pub(super) fn start_at(port: Port, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let background = Background::start();
        let upstream = background.run(async {
            let listener = tokio::net::TcpListener::from_std(port.listen()).unwrap();
            Arc::new(Upstream::listen_on(listener, script))
        });
        Self { upstream, background }
    }

    /// Waits for something that the upstream tells.
    #[track_caller]
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.background.run(future)
    }

    /// Waits until the request for this target has arrived.
    #[track_caller]
    pub(super) fn await_target(&self, target: &str) -> Request {
        until(|| self.requests().into_iter().find(|request| request.target == target))
    }

    /// How many requests for this target have arrived.
    pub(super) fn deliveries(&self, target: &str) -> usize {
        self.requests().iter().filter(|request| request.target == target).count()
    }
}

impl Deref for Scripted {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}
