//! What the program itself is like, and what it takes of the machine: read when somebody asks.
//!
//! What any program can tell of itself has the names that Prometheus has for it, which begin with `process_`. Linux tells it in
//! files of /proc; elsewhere it is left out.

use std::fmt;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;

use crate::admin::gather;
use crate::log;
use crate::serve::Lag;

/// A program that serves.
#[derive(Debug)]
pub(crate) struct Program {
    /// Those for connections of clients that are free.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) max_connections: usize,
    pub(crate) lag: Arc<Lag>,
    pub(crate) started: SystemTime,
}

/// The program that is shown, once it serves.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched(Arc<OnceLock<Program>>);

impl Watched {
    pub(super) fn watch(&self, program: Program) {
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.0.set(program).is_ok();
        debug_assert!(first, "a program is watched once");
    }
}

impl Collector for Watched {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut shown = Shown(encoder);
        let help = "Log lines that were lost because nobody read them fast enough.";
        shown.one("log_lines_lost", help, MetricType::Counter, &ConstCounter::new(log::lines_lost()))?;
        self.0.get().map_or(Ok(()), |program| shown.program(program))
    }
}

/// Shows what any program can tell of itself; the registry must have no prefix.
#[derive(Debug)]
pub(super) struct Process(pub(super) Watched);

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.0.get().map_or(Ok(()), |program| Shown(encoder).process(program))
    }
}

struct Shown<'a>(DescriptorEncoder<'a>);

impl Shown<'_> {
    fn program(&mut self, Program { places, max_connections, lag, .. }: &Program) -> fmt::Result {
        let open = gather::connections(places, *max_connections).open;
        self.gauge("connections", "Connections of clients that are open.", None, open)?;
        let help = "Connections of clients that may be open; the next ones wait until one closes.";
        self.gauge("connections_max", help, None, *max_connections as u64)?;
        let help = "How late the timers of each runtime fired, the worst of the last minute.";
        let mut lags = self.0.encode_descriptor("runtime_lag", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (runtime, late) in lag.all() {
            lags.encode_family(&[("runtime", &*runtime)])?.encode_gauge(&late.as_secs_f64())?;
        }
        Ok(())
    }

    fn process(&mut self, Program { started, .. }: &Program) -> fmt::Result {
        let help = "Processor time that the process has used, of the user and of the system.";
        let cpu = ConstCounter::new(processor_time().as_secs_f64());
        let family = self.0.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        cpu.encode(family)?;
        let help = "When the process was started, since the beginning of 1970.";
        let started = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let start = self.0.encode_descriptor("process_start_time", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(started).encode(start)?;
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of the process that lies in the machine's.";
            self.gauge("process_resident_memory", help, Some(&Unit::Bytes), bytes)?;
        }
        if let Some(open) = open_files() {
            self.gauge("process_open_fds", "Files and connections that the process has open.", None, open)?;
        }
        match getrlimit(Resource::Nofile).current {
            Some(max) => self.gauge("process_max_fds", "Files and connections that it may have open.", None, max),
            None => Ok(()),
        }
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?)
    }

    fn one(&mut self, name: &str, help: &str, kind: MetricType, value: &impl EncodeMetric) -> fmt::Result {
        value.encode(self.0.encode_descriptor(name, help, None, kind)?)
    }
}

fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// A Linux of 2023 or later tells their number as the size of the folder; to count them takes milliseconds if there are many.
fn open_files() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).ok()?.len() {
        0 => Some(fs::read_dir(FOLDER).ok()?.count() as u64),
        open => Some(open),
    }
}
