//! How is everything now? Reads lanes, counters and stores, and makes of them what `/state` tells.
//!
//! Nothing is kept from one look to the next: rates and estimates are the core's. A lane is locked for a moment for itself and
//! once for each client that is told of, so whoever looks often costs those who wait next to nothing.

use std::time::{Duration, SystemTime};

use sopan_core::breaker;
use sopan_core::bucket::Fill;
use sopan_core::headers::redact_url;
use sopan_core::lane::{HeldBy as Who, Outlook, Snapshot};
use sopan_core::policy::Limit as Kept;
use sopan_engine::event::{Cached as Kind, NO_UPSTREAM};
use sopan_engine::shared::{StoreLook, StoreMode};
use sopan_engine::{Look, Usage};
use tokio::sync::Semaphore;

use super::metrics::Totals;
use super::past::Load;
use super::recent::Ended;
use super::state::{
    Breaker, BreakerState, CLIENTS_MAX, Cached, Client, Connections, Disk, Exchange, HeldBy, Hold, InCommon, Limit,
    LimitKind, Memory, Places, Queue, RetryBudget, Shared, SharedMode, State, Store, Upstream,
};
use super::{Behind, Scene};
use crate::log::{self, Stamp};
use crate::serve::Clients;
use crate::version;

const DAY: Duration = Duration::from_secs(86_400);

impl Scene {
    /// All of it, now.
    pub(super) fn state(&self) -> State {
        let now = SystemTime::now();
        let upstreams = self.upstreams.iter().enumerate();
        let look = self.shared.as_ref().map(|store| store.look());
        State {
            version: version::NUMBER.to_owned(),
            started: Stamp(self.started).to_string(),
            now: Stamp(now).to_string(),
            uptime_s: seconds(self.clock.now().since(self.began)),
            draining: self.drain.has_begun(),
            connections: connections(&self.places, self.max_connections),
            log_lines_lost: log::lines_lost(),
            store: look.as_ref().map(shared),
            cache: self.cache.as_ref().map(|cache| store(cache.usage())),
            upstreams: upstreams
                .map(|(number, behind)| upstream(behind, &self.clients, self.metrics.totals(number), look.as_ref()))
                .collect(),
            exchanges: self.recent.newest().iter().map(|ended| self.exchange(ended)).collect(),
        }
    }

    /// How much each upstream has to do now.
    pub(super) fn loads(&self) -> Box<[Load]> {
        let store = self.shared.as_ref().map(|store| store.look());
        self.upstreams.iter().map(|behind| load(behind, store.as_ref())).collect()
    }

    fn exchange(&self, ended: &Ended) -> Exchange {
        let behind = ended.upstream.and_then(|number| self.upstreams.get(number));
        let name = behind.map_or(NO_UPSTREAM, |behind| behind.upstream.name());
        Exchange {
            id: ended.id,
            upstream: name.to_owned(),
            client: self.clients.name(ended.client).into_owned(),
            method: ended.method.to_string(),
            target: ended.target(),
            status: ended.status.map(|status| status.as_u16()),
            began: Stamp(ended.began()).to_string(),
            total_s: seconds(ended.total),
            wait_s: seconds(ended.wait),
            upstream_s: seconds(ended.answered_in),
            attempts: ended.attempts,
            cache: ended.cache.map(|cached| cached.word().to_owned()),
            bytes: ended.bytes,
            story: ended.story(),
        }
    }
}

/// How many of so many places are taken.
pub(super) fn connections(places: &Semaphore, max: usize) -> Connections {
    Connections { open: (max - places.available_permits().min(max)) as u64, max: max as u64 }
}

fn upstream(behind: &Behind, names: &Clients, totals: Totals, store: Option<&StoreLook>) -> Upstream {
    let Look { snapshot, outlook, lines } = behind.upstream.look(CLIENTS_MAX);
    let clients = lines.iter().map(|(line, wait)| Client {
        name: names.name(line.client).into_owned(),
        waiting: line.waiting as u64,
        weight: line.weight,
        wait_s: seconds(*wait),
    });
    Upstream {
        name: behind.upstream.name().to_owned(),
        url: redact_url(&behind.upstream.target().to_string()),
        route: behind.route.to_string(),
        observe: behind.upstream.is_only_observed(),
        shared: behind.upstream.is_shared(),
        limits: limits(&behind.limits, &snapshot, &outlook),
        allowed_per_s: allowed_now(&behind.limits, &snapshot, part(behind, store)),
        sustained_per_s: behind.limits.iter().map(sustained_per_s).reduce(f64::min),
        used_per_s: thousandths(outlook.used_per_s),
        empty_in_s: outlook.lasts.map(seconds),
        queue: Queue {
            waiting: snapshot.waiting as u64,
            waiting_max: outlook.waiting_max.into(),
            bytes: snapshot.waiting_bytes,
            bytes_max: outlook.waiting_bytes_max,
            wait_s: seconds(outlook.wait),
            clients: clients.collect(),
            clients_total: outlook.clients_waiting as u64,
        },
        places: Places { used: snapshot.in_flight, max: outlook.max_in_flight },
        hold: snapshot.hold.map(|left| Hold { ends_in_s: seconds(left), by: held_by(outlook.held_by) }),
        breaker: breaker(&snapshot, &outlook),
        retry_budget: RetryBudget { left: snapshot.retries_left },
        cache: behind.has_cache.then(|| cached(&totals)),
        exchanges: totals.exchanges,
        attempts: totals.attempts,
        refusals: totals.refusals,
    }
}

fn load(behind: &Behind, store: Option<&StoreLook>) -> Load {
    let Look { snapshot, outlook, .. } = behind.upstream.look(0);
    Load {
        allowed_per_s: allowed_now(&behind.limits, &snapshot, part(behind, store)),
        used_per_s: outlook.used_per_s,
        waiting: snapshot.waiting as u64,
    }
}

fn limits(limits: &[Kept], snapshot: &Snapshot, outlook: &Outlook) -> Vec<Limit> {
    let known = limits.iter().zip(&snapshot.fills).zip(&outlook.full_in);
    let limit = |((limit, fill), full_in): ((&Kept, &Fill), &Duration)| Limit {
        limit: limit.to_string(),
        kind: if matches!(limit, Kept::Rate(_)) { LimitKind::Rate } else { LimitKind::Quota },
        capacity: fill.capacity,
        free: thousandths(fill.tokens),
        window_s: window(limit).map(seconds),
        full_in_s: seconds(*full_in),
    };
    known.map(limit).collect()
}

/// The span that a quota counts in.
fn window(limit: &Kept) -> Option<Duration> {
    match limit {
        Kept::Rate(_) => None,
        Kept::Quota(quota) => Some(quota.span()),
        Kept::Calendar(_) => Some(DAY),
    }
}

/// What may go in a second as it is now. A quota of which some is left stops nobody.
fn allowed_now(limits: &[Kept], snapshot: &Snapshot, part: f64) -> Option<f64> {
    let is_closed = snapshot.hold.is_some() || matches!(snapshot.breaker, breaker::State::Open { .. });
    if is_closed { Some(0.0) } else { allowed_by(limits, &snapshot.fills).map(|whole| whole * part) }
}

/// What part of its limits may be used: all of them together while they are shared, and this one's share where it is cut off.
fn part(behind: &Behind, store: Option<&StoreLook>) -> f64 {
    store.filter(|_| behind.upstream.is_shared()).map_or(1.0, part_of)
}

fn part_of(store: &StoreLook) -> f64 {
    match store.mode {
        StoreMode::Shared | StoreMode::Silent | StoreMode::Ignore => 1.0,
        StoreMode::Alone => 1.0 / f64::from(store.parts.max(1)),
        StoreMode::Refuse => 0.0,
    }
}

fn allowed_by(limits: &[Kept], fills: &[Fill]) -> Option<f64> {
    let stops = |(limit, fill): &(&Kept, &Fill)| matches!(limit, Kept::Rate(_)) || fill.tokens < 1.0;
    limits.iter().zip(fills).filter(stops).map(|(limit, _)| sustained_per_s(limit)).reduce(f64::min)
}

/// What it lets go in the long run.
pub(super) fn sustained_per_s(limit: &Kept) -> f64 {
    let (count, span) = match limit {
        Kept::Rate(rate) => {
            let (tokens, nanos) = rate.fraction();
            return tokens as f64 / (nanos as f64 / 1e9);
        }
        Kept::Quota(quota) => (quota.count(), quota.span()),
        Kept::Calendar(quota) => (quota.count(), DAY),
    };
    count as f64 / span.as_secs_f64()
}

fn held_by(who: Who) -> HeldBy {
    match who {
        Who::Upstream => HeldBy::Upstream,
        Who::Operator => HeldBy::Operator,
    }
}

fn breaker(snapshot: &Snapshot, outlook: &Outlook) -> Breaker {
    let state = match snapshot.breaker {
        _ if !outlook.has_breaker => BreakerState::Off,
        breaker::State::Closed => BreakerState::Closed,
        breaker::State::Open { .. } => BreakerState::Open,
        breaker::State::HalfOpen { .. } => BreakerState::HalfOpen,
    };
    Breaker { state, half_open_in_s: outlook.half_open_in.map(seconds) }
}

fn cached(totals: &Totals) -> Cached {
    let of = |kind: Kind| totals.cached[kind as usize];
    Cached {
        hit: of(Kind::Hit),
        stale: of(Kind::Stale),
        revalidated: of(Kind::Revalidated),
        coalesced: of(Kind::Coalesced),
        miss: of(Kind::Miss),
        bypass: of(Kind::Bypass),
        tokens_saved: totals.tokens_saved,
    }
}

fn shared(look: &StoreLook) -> Shared {
    Shared {
        kind: look.kind.to_owned(),
        url: look.url.clone(),
        mode: match look.mode {
            StoreMode::Shared => SharedMode::Shared,
            StoreMode::Silent => SharedMode::Silent,
            StoreMode::Alone => SharedMode::Alone,
            StoreMode::Refuse => SharedMode::Refuse,
            StoreMode::Ignore => SharedMode::Ignore,
        },
        since_s: seconds(look.since),
        seen: look.seen,
        counted: look.counted,
        parts: look.parts,
        round_trips: look.round_trips,
        // To the microsecond: one on the same machine takes less than a millisecond.
        round_trip_s: look.round_trip.map(|took| (took.as_secs_f64() * 1e6).round() / 1e6),
    }
}

fn store(usage: Usage) -> Store {
    Store {
        memory: Memory { bytes: usage.memory_bytes, bytes_max: usage.memory_bytes_max, targets: usage.memory_targets },
        disk: usage.disk.map(|disk| Disk { bytes: disk.bytes, bytes_max: disk.bytes_max, answers: disk.answers }),
        shared: usage.commons.map(|of| InCommon {
            in_step: of.is_in_step,
            found: of.found,
            missed: of.missed,
            stored: of.stored,
        }),
    }
}

/// To the millisecond, which is more than anybody reads.
fn seconds(span: Duration) -> f64 {
    thousandths(span.as_secs_f64())
}

pub(super) fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_slows_nobody_until_it_is_used_up() {
        let kept = |limits: &[&str]| limits.iter().map(|limit| limit.parse().unwrap()).collect::<Vec<Kept>>();
        let both = ["10/s", "3600 per 1h"];
        for (limits, tokens, expected) in [
            (&both[..], [0.0, 5.0], Some(10.0)),
            (&both, [1.0, 0.9], Some(1.0)),
            (&both[1..], [1.0, 0.0], None),
            (&both[1..], [0.0, 0.0], Some(1.0)),
            (&[], [0.0, 0.0], None),
        ] {
            let fills = tokens.map(|tokens| Fill { tokens, capacity: 100.0 });
            assert_eq!(allowed_by(&kept(limits), &fills), expected, "{limits:?} {tokens:?}");
        }
    }

    #[test]
    fn an_instance_that_is_cut_off_may_use_its_part_of_what_all_may() {
        for (mode, expected) in [
            (StoreMode::Shared, 1.0),
            (StoreMode::Silent, 1.0),
            (StoreMode::Alone, 0.25),
            (StoreMode::Refuse, 0.0),
            (StoreMode::Ignore, 1.0),
        ] {
            let (url, since) = ("redis://127.0.0.1:6379".to_owned(), Duration::ZERO);
            let look = StoreLook {
                kind: "standalone",
                url,
                mode,
                since,
                seen: 1,
                counted: 2,
                parts: 4,
                round_trips: 0,
                round_trip: None,
            };
            assert_eq!(part_of(&look), expected, "{mode:?}");
        }
    }

    #[test]
    fn what_is_allowed_in_the_long_run_is_told_of_every_kind_of_limit() {
        for (limit, expected, window_s) in [
            ("10/s burst 20", 10.0, None),
            ("90/min", 1.5, None),
            ("0.5/s", 0.5, None),
            ("3600 per 1h", 1.0, Some(3600)),
            ("86400 per day at 00:00 UTC", 1.0, Some(86_400)),
        ] {
            let limit: Kept = limit.parse().unwrap();
            assert!((sustained_per_s(&limit) - expected).abs() < 1e-9, "{limit}");
            assert_eq!(window(&limit).map(|window| window.as_secs()), window_s, "{limit}");
        }
    }
}
