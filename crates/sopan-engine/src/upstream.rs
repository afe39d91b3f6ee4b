//! One upstream: its lane, its connections and its policies, shared by all exchanges with it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};
use sopan_core::breaker::Breaker;
use sopan_core::headers::{Elsewhere, ForwardedPolicy, is_link, rewrite_links};
use sopan_core::lane::shadow::Shadow;
use sopan_core::lane::{Lane, NoBreaker, Outlook, Snapshot};
use sopan_core::policy::{BreakerPolicy, CachePolicy, LanePolicy, PolicyError, RetryPolicy};
use sopan_core::queue::{ClientId, LineOf};
use sopan_core::retry::Budget;
use sopan_core::trace::Sampler;
use tokio::sync::Semaphore;

use crate::body::Bounds;
use crate::budget::ByteBudget;
use crate::clock::Clock;
use crate::coalesce::Flights;
use crate::credential::{Credential, keep_up};
use crate::dispatcher::Dispatcher;
use crate::event::{Observer, Unobserved};
use crate::exchange::caching::Seat;
use crate::exchange::caching::background::BACKGROUND_MAX;
use crate::exchange::log::Seldom;
use crate::exchange::story::Audience;
use crate::jitter::Jitter;
use crate::shared::Shared;
use crate::state::StateHandle;
use crate::store::{Cache, Key, Place};
use crate::transport::{ClientCertificate, Dial, Roots, Target, TlsError, Transport};

/// How an upstream is reached and treated.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it is called in the log; default `default`.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// What its clients have in front of every path, such as `/shop`; it is taken off before the path of the target is put
    /// there, and links that lead back get it again. Empty, the default, where that is nothing.
    pub mount: String,
    /// What beneath that leads to other upstreams, such as `/shop/eu`. Links of this one never lead there; default nothing.
    pub elsewhere: Vec<String>,
    /// Its limits, and the bounds of its queue.
    pub lane: LanePolicy,
    /// When it counts as down.
    pub breaker: BreakerPolicy,
    /// When a request is sent again.
    pub retry: RetryPolicy,
    /// The longest that connecting may take, TLS included; default 5 s.
    pub connect_timeout: Duration,
    /// How long a connection is kept idle, and how long a body may be silent; default 60 s.
    pub idle_timeout: Duration,
    /// Whether waiting for turns and holds counts in `total_timeout`. It does for a proxy, whose client is waiting; it does
    /// not for a job that would rather wait than fail.
    pub waits_count: bool,
    /// Who may vouch for it over TLS.
    pub roots: Roots,
    /// What it learns of who asked.
    pub forwarded: ForwardedPolicy,
    /// Whether links of its answers that point to itself are made to lead back to the client's door; they are.
    pub rewrite_links: bool,
    /// What it is shown over TLS if it wants to know who asks.
    pub client_certificate: Option<ClientCertificate>,
    /// By what it knows who asks, put into every request in place of what a client has sent there; none, the default, means
    /// that clients bring their own.
    pub credential: Option<Credential>,
    /// Whether HTTP/2 is spoken where it is offered over TLS; default true.
    pub http2: bool,
    /// What of its answers is stored, where `Surroundings` have a cache; none, the default, means nothing.
    pub cache: Option<CachePolicy>,
    /// Whether it is only observed: limits, holds, retries, breaker and cache are reckoned and reported, and change nothing;
    /// time-outs, and the places of `max_in_flight` with the queue for them, act all the same. Default false.
    pub observe: bool,
}

impl Settings {
    /// The defaults of a proxy in front of this target.
    pub fn new(target: Target) -> Self {
        Self {
            name: "default".to_owned(),
            target,
            mount: String::new(),
            elsewhere: Vec::new(),
            lane: LanePolicy::default(),
            breaker: BreakerPolicy::default(),
            retry: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            waits_count: true,
            roots: Roots::default(),
            forwarded: ForwardedPolicy::default(),
            rewrite_links: true,
            client_certificate: None,
            credential: None,
            http2: true,
            cache: None,
            observe: false,
        }
    }

    /// Everything that is outside of what is allowed.
    fn wrong(&self) -> Vec<String> {
        let policies = [self.lane.validate(), self.retry.validate(), self.breaker.validate()];
        let cache = self.cache.as_ref().map(CachePolicy::validate);
        let wrong =
            policies.into_iter().chain(cache).filter_map(Result::err).flatten().map(|e: PolicyError| e.to_string());
        let times = [("connect_timeout", self.connect_timeout), ("idle_timeout", self.idle_timeout)];
        let zero = times.into_iter().filter(|(_, time)| time.is_zero());
        let wrong = wrong.chain(zero.map(|(key, _)| format!("{key} is zero; allowed is more than zero")));
        let mount = Some(&self.mount).filter(|mount| !is_mount(mount));
        wrong
            .chain(mount.map(|mount| format!("mount `{mount}` is no beginning of a path; write for example /shop")))
            .collect()
    }
}

/// Whether it is some whole segments of a path, each with a slash before it, or nothing.
fn is_mount(text: &str) -> bool {
    let is_path = || text.starts_with('/') && !text.ends_with('/') && text.parse::<PathAndQuery>().is_ok();
    text.is_empty() || is_path() && !text.contains(['?', '#'])
}

/// An upstream cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Settings outside of what is allowed, each named.
    #[error("{}", .0.join("; "))]
    Policy(Vec<String>),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// What an upstream lives in: time, chance, who is told, and how connections are made. The default is the machine's.
#[derive(Debug)]
pub struct Surroundings {
    /// Its clock.
    pub clock: Clock,
    /// Its dice.
    pub jitter: Jitter,
    /// Who is told what happens.
    pub observer: Arc<dyn Observer>,
    /// How connections are made; none means TCP, with TLS where the target wants it.
    pub dial: Option<Arc<dyn Dial>>,
    /// Where what was used of its quotas, and holds, outlive the process; none means that they do not.
    pub state: Option<StateHandle>,
    /// Where its answers are stored; none means nowhere.
    pub cache: Option<Arc<Cache>>,
    /// With whom its limits are shared; none means with nobody. Those of one that is only observed never are.
    pub shared: Option<Arc<Shared>>,
    /// Which of its exchanges are recorded in traces; none means that what requests say of those is passed on as it comes.
    pub sampler: Option<Sampler>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            jitter: Jitter::new(),
            observer: Arc::new(Unobserved),
            dial: None,
            state: None,
            cache: None,
            shared: None,
            sampler: None,
        }
    }
}

/// An upstream as people want to know it.
#[derive(Debug, Clone)]
pub struct Look {
    /// What its lane is like.
    pub snapshot: Snapshot,
    /// What will become of it.
    pub outlook: Outlook,
    /// The clients who have most waiting, and how long one more request of each would wait.
    pub lines: Vec<(LineOf, Duration)>,
}

/// Why an upstream cannot be changed by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotChange {
    /// It is only observed.
    #[error("it is only observed, so holds and the breaker change nothing; take `observe` away first")]
    OnlyObserved,
    /// It has no breaker.
    #[error("it has no breaker (`breaker: off`)")]
    NoBreaker,
}

/// An upstream, ready for exchanges: see [`crate::exchange::call`].
pub struct Upstream {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) retry: RetryPolicy,
    pub(crate) wait_max: Option<Duration>,
    pub(crate) idle_timeout: Duration,
    pub(crate) waits_count: bool,
    pub(crate) forwarded: ForwardedPolicy,
    pub(crate) rewrite_links: bool,
    pub(crate) clock: Clock,
    pub(crate) jitter: Jitter,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) bounds: Bounds,
    pub(crate) refusals: Seldom,
    pub(crate) mount: Box<str>,
    elsewhere: Option<Elsewhere>,
    pub(crate) observe: bool,
    pub(crate) credential: Option<Credential>,
    pub(crate) cache: Option<Caches>,
    /// Of those that would be refused, where it is only observed.
    pub(crate) would_be_refusals: Seldom,
    name: Arc<str>,
    arrivals: AtomicU64,
}

/// Where the answers of an upstream are stored, and which.
pub(crate) struct Caches {
    pub(crate) store: Arc<Cache>,
    pub(crate) policy: CachePolicy,
    pub(crate) place: Place,
    /// Requests whose answers others may get.
    pub(crate) flights: Arc<Flights<Key, Seat>>,
    /// Places for requests in the background.
    pub(crate) background: Arc<Semaphore>,
}

impl Caches {
    fn new(store: Arc<Cache>, policy: CachePolicy, place: Place, clock: Clock) -> Self {
        let flights = Arc::new(Flights::new(clock));
        store.add_flights(&flights);
        Self { store, policy, place, flights, background: Arc::new(Semaphore::new(BACKGROUND_MAX)) }
    }
}

impl Upstream {
    /// Sets an upstream up. The future that comes with it does what is due by itself (turns, time-outs of idle
    /// connections) and must be polled by some task until the upstream is gone; it ends then.
    ///
    /// # Errors
    /// Settings outside of what is allowed, or TLS that cannot be set up.
    pub fn start(
        settings: Settings,
        around: Surroundings,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), SetupError> {
        let wrong = settings.wrong();
        if !wrong.is_empty() {
            return Err(SetupError::Policy(wrong));
        }
        let Settings { name, mount, elsewhere, target, mut lane, mut breaker, retry, .. } = settings;
        let Settings {
            connect_timeout,
            idle_timeout,
            observe,
            waits_count,
            roots,
            client_certificate,
            credential,
            http2,
            forwarded,
            rewrite_links,
            cache: policy,
            ..
        } = settings;
        let Surroundings { clock, jitter, observer, dial, state, cache, shared, sampler } = around;
        let cache = match (cache, policy) {
            (Some(store), Some(policy)) if policy.on => {
                // What one account may see is for all only as long as all use that account.
                let account =
                    credential.as_ref().map_or_else(String::new, |credential| format!(" {}", credential.place()));
                let place = Place::new(&target.to_string(), &format!("{mount}{account}"));
                Some(Caches::new(store, policy, place, clock))
            }
            _ => None,
        };
        let dial = match dial {
            Some(dial) => dial,
            None => Transport::tcp(&target, &roots, client_certificate.as_ref(), http2)?,
        };
        let (wait_max, name) = (lane.wait_max, Arc::<str>::from(name));
        let shadow = observe.then(|| Box::new(Shadow::new(&lane, Breaker::new(breaker.clone()))));
        if observe {
            lane.limits.clear();
            lane.clients.clear();
            breaker.on = false;
        }
        // Without limits there is nothing to share, and what is only observed keeps to none.
        let seat = shared.filter(|_| !lane.limits.is_empty()).map(|shared| shared.join(&name, &target.to_string()));
        let lane = Lane::new(lane, Breaker::new(breaker), Budget::new(retry.retry_budget));
        // While it is only observed no journal is kept, and what the file knows waits for the end of that.
        let state = match state {
            Some(state) if observe => {
                state.keep();
                None
            }
            state => state,
        };
        let dispatcher = Arc::new(Dispatcher::new(lane, shadow, clock, Arc::clone(&name), state, seat));
        dispatcher.sit();
        let transport = Arc::new(Transport::new(target, dial, http2, connect_timeout, idle_timeout, clock));
        let (pace, sweep) =
            (Dispatcher::run(Arc::downgrade(&dispatcher)), Transport::sweep(Arc::downgrade(&transport)));
        let budget = Arc::new(ByteBudget::new(retry.replay_bytes_total));
        let bounds = Bounds { replay_bytes_max: retry.replay_bytes_max, budget, idle_timeout, clock };
        let arrivals = AtomicU64::new(0);
        let upstream = Self {
            dispatcher,
            transport,
            retry,
            wait_max,
            idle_timeout,
            waits_count,
            forwarded,
            rewrite_links,
            clock,
            jitter,
            observer,
            sampler,
            bounds,
            refusals: Seldom::default(),
            mount: mount.into(),
            elsewhere: Elsewhere::new(&elsewhere),
            observe,
            credential,
            cache,
            would_be_refusals: Seldom::default(),
            name,
            arrivals,
        };
        let keep_up =
            keep_up(upstream.credential.clone(), Arc::clone(&upstream.name), Arc::downgrade(&upstream.dispatcher));
        let background = async move {
            tokio::join!(pace, sweep, keep_up);
        };
        Ok((Arc::new(upstream), background))
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        self.transport.target()
    }

    /// Whether it is only observed.
    pub fn is_only_observed(&self) -> bool {
        self.observe
    }

    /// Whether its limits are shared with other instances.
    pub fn is_shared(&self) -> bool {
        self.dispatcher.is_shared()
    }

    /// Writes what its state does not know yet, for a process that ends in order. Requests may still follow.
    pub fn close(&self) {
        self.dispatcher.close();
    }

    /// What its lane looks like now; where it is only observed, with the limits, the hold and the breaker that it would have.
    pub fn snapshot(&self) -> Snapshot {
        self.dispatcher.snapshot()
    }

    /// The same with what will become of those who wait, and of at most `clients_max` clients, those who have most waiting, one
    /// by one.
    pub fn look(&self, clients_max: usize) -> Look {
        let (snapshot, outlook, lines) = self.dispatcher.look(clients_max);
        Look { snapshot, outlook, lines }
    }

    /// Sends nothing for so long, at most `max_hold`, as if the upstream had asked for that; answers for how long. A pause that
    /// lasts longer stays as it is.
    ///
    /// # Errors
    /// The upstream is only observed.
    pub fn hold(&self, wait: Duration) -> Result<Duration, CannotChange> {
        self.changeable()?;
        Ok(self.dispatcher.hold(wait))
    }

    /// Ends a pause at once, whoever asked for it; answers whether there was one.
    ///
    /// # Errors
    /// The upstream is only observed.
    pub fn release(&self) -> Result<bool, CannotChange> {
        self.changeable()?;
        Ok(self.dispatcher.release())
    }

    /// Opens the breaker for so long, at most `max_hold`, or as long as it is open by itself; answers for how long.
    ///
    /// # Errors
    /// There is none, or the upstream is only observed.
    pub fn open_breaker(&self, open_for: Option<Duration>) -> Result<Duration, CannotChange> {
        self.changeable()?;
        self.dispatcher.open_breaker(open_for).map_err(|NoBreaker| CannotChange::NoBreaker)
    }

    /// Closes the breaker, and forgets what failed before.
    ///
    /// # Errors
    /// There is none, or the upstream is only observed.
    pub fn close_breaker(&self) -> Result<(), CannotChange> {
        self.changeable()?;
        self.dispatcher.close_breaker().map_err(|NoBreaker| CannotChange::NoBreaker)
    }

    fn changeable(&self) -> Result<(), CannotChange> {
        if self.observe { Err(CannotChange::OnlyObserved) } else { Ok(()) }
    }

    /// Makes links of an interim answer what a client may see: without the credential that was put into the request, and
    /// leading back to where the client asked, if that is wished. `base` is its `Host`. The answers of exchanges are treated so
    /// already.
    pub fn tell_in_between(&self, fields: &mut HeaderMap, base: Option<&HeaderValue>) {
        self.hide_credential(fields);
        if let Some(base) = base {
            self.lead_back(fields, base);
        }
    }

    /// Takes the credential that was put into the request off the links of an answer.
    pub(crate) fn hide_credential(&self, fields: &mut HeaderMap) {
        if let Some(credential) = &self.credential {
            credential.hide(fields, &self.target().origin(&self.mount, self.elsewhere.as_ref()));
        }
    }

    /// Has links of an answer's fields that point to the upstream lead back to where a client asked, if that is wished.
    /// `base` is the client's `Host`.
    pub(crate) fn lead_back(&self, fields: &mut HeaderMap, base: &HeaderValue) {
        if self.rewrite_links {
            self.as_clients_see(fields, base);
        }
    }

    /// The same, whether it is wished or not.
    pub(crate) fn as_clients_see(&self, fields: &mut HeaderMap, base: &HeaderValue) {
        // Most answers have none.
        if fields.keys().any(is_link)
            && let Ok(base) = base.to_str()
        {
            rewrite_links(fields, &self.target().origin(&self.mount, self.elsewhere.as_ref()), base);
        }
    }

    /// Who is told what became of its exchanges with this client.
    pub(crate) fn audience(&self, client: ClientId) -> Audience<'_> {
        Audience { clock: self.clock, observer: &*self.observer, client }
    }

    pub(crate) fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Relaxed)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({})", self.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_whole_segments_of_a_path_or_nothing() {
        for (mount, is_allowed) in [
            ("", true),
            ("/shop", true),
            ("/shop/eu", true),
            ("/", false),
            ("/shop/", false),
            ("shop", false),
            ("/shop?x", false),
            ("/shop#x", false),
            ("/a b", false),
        ] {
            let mut settings = Settings::new(Target::parse("http://u").unwrap());
            settings.mount = mount.to_owned();
            let wrong = Upstream::start(settings, Surroundings::default()).err().map(|error| error.to_string());
            let expected = format!("mount `{mount}` is no beginning of a path; write for example /shop");
            assert_eq!(wrong, (!is_allowed).then_some(expected));
        }
    }
}
