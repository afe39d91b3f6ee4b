//! May an answer in store be used at this time, and if so, without asking?
//!
//! Three parties have a say: the answer itself (its lifetime, and what it says of the time after), the client (how old it
//! takes an answer, RFC 9111 §5.2.1) and the settings. [`judge`] hears all three when a request comes, [`may_stand_in`]
//! when the upstream has failed.
//!
//! Left to others: which answer is the one in question, and what of it is sent.

use std::time::{Duration, SystemTime};

use super::conditional::Conditions;
use super::directives::{ResponseDirectives, Scope};
use super::status::{Detail, Forward};
use super::{Asked, Stored};
use crate::policy::{CachePolicy, PathTreatment, Revalidate};

/// By so much an answer may have come after the time it is looked at, since its time and that of the request are read one
/// after the other, and clocks are mended by as little. More than that is a clock that was set back, and how old anything
/// is nobody knows.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(1);

/// How much longer than it is fresh an answer is worth keeping in any case, and no longer than which, as long as that is as
/// long as it was fresh. An answer that changes each minute is hardly of use an hour later.
const AFTERLIFE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// Nothing is kept for others beyond this.
const KEPT_MAX: Duration = Duration::from_secs(86_400);

/// How old an answer is, against how old it may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) age: Duration,
    lifetime: Duration,
    is_age_known: bool,
}

impl Standing {
    pub(super) fn of(stored: &Stored, now: SystemTime) -> Self {
        let (since, ahead) = match now.duration_since(stored.times.received) {
            Ok(since) => (since, Duration::ZERO),
            Err(ahead) => (Duration::ZERO, ahead.duration()),
        };
        Self {
            age: stored.freshness.age_after(since),
            lifetime: stored.freshness.lifetime,
            is_age_known: ahead <= CLOCK_STEP_MAX,
        }
    }

    /// RFC 9111 §4.2.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_age_known && self.lifetime > self.age
    }

    /// For how many seconds it is fresh still; below 0 where it is not.
    pub(super) fn ttl(&self) -> i64 {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        match self.is_fresh() {
            true => seconds(self.left()),
            false => -seconds(self.age.saturating_sub(self.lifetime)).max(1),
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.lifetime.saturating_sub(self.age)
    }

    /// See [`Stored::useful_for`].
    pub(super) fn useful_for(&self, policy: &CachePolicy, directives: &ResponseDirectives) -> Duration {
        let said =
            [directives.stale_while_revalidate, directives.stale_if_error].into_iter().flatten().map(seconds).max();
        let windows = said.unwrap_or_default().max(policy.stale_if_error).min(policy.stale_max);
        let after = self.lifetime.clamp(AFTERLIFE.0, AFTERLIFE.1).max(windows);
        let until = self.lifetime.saturating_add(after);
        until.saturating_sub(self.age).min(KEPT_MAX)
    }

    /// How long ago it ceased to be fresh, if that is known.
    fn staleness(&self) -> Option<Duration> {
        self.is_age_known.then(|| self.age.saturating_sub(self.lifetime))
    }
}

/// Whether an answer in store is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is; and if it is stale, this is why.
    Use(Option<Detail>),
    /// It is, and asked about meanwhile.
    UseAndAsk,
    /// The upstream is asked first, for this reason.
    Ask(Forward),
}

/// Whether this answer is used for this request.
pub(super) fn judge(policy: &CachePolicy, asked: &Asked<'_>, stored: &Stored, standing: Standing) -> Judgement {
    if asked.directives.no_cache {
        return Judgement::Ask(Forward::Request);
    }
    if asks_each_time(&stored.directives) || is_to_be_asked_about(policy, asked, stored, standing) {
        return Judgement::Ask(Forward::Stale);
    }
    let is_fresh = standing.is_fresh();
    let wish = Wish::of(asked, stored, standing);
    if is_fresh && wish.is_met {
        return Judgement::Use(None);
    }
    let otherwise = if is_fresh { Forward::Request } else { Forward::Stale };
    let Some(staleness) = standing.staleness() else { return Judgement::Ask(otherwise) };
    let may_be_used = is_fresh || may_be_stale(&stored.directives) && staleness <= policy.stale_max;
    if !may_be_used {
        return Judgement::Ask(otherwise);
    }
    let is_within = |window: Option<u32>| window.is_some_and(|window| staleness <= seconds(window));
    // Who says how old an answer may be wants none that is stale (RFC 9111 §5.2.1.1).
    let takes_stale = wish.is_met && asked.directives.max_age.is_none();
    if !is_fresh && takes_stale && is_within(stored.directives.stale_while_revalidate) {
        return Judgement::UseAndAsk;
    }
    match wish.is_nearly_met {
        true => Judgement::Use((!is_fresh).then_some(Detail::StaleAccepted)),
        false => Judgement::Ask(otherwise),
    }
}

/// What a client wants of the age of an answer (RFC 9111 §5.2.1).
struct Wish {
    /// It is as young as the client wants it, and stays fresh for as long, if it said anything of either.
    is_met: bool,
    /// It is older, but not by more than the client takes (`max-stale`).
    is_nearly_met: bool,
}

impl Wish {
    fn of(asked: &Asked<'_>, stored: &Stored, standing: Standing) -> Self {
        let directives = &asked.directives;
        // What does not change while it is fresh need not be asked about because a page is loaded again (RFC 8246 §2.1).
        let is_immutable = standing.is_fresh() && stored.directives.immutable;
        let max_age = directives.max_age.filter(|age| !(is_immutable && *age == 0));
        // No answer in store is of age 0, even if it came this very instant: who wants that wants another one.
        let is_young = max_age.is_none_or(|max| max > 0 && standing.age <= seconds(max));
        let lasts = directives.min_fresh.is_none_or(|min| standing.left() >= seconds(min));
        let beyond = standing.age.saturating_sub(max_age.map_or(standing.lifetime, seconds).min(standing.lifetime));
        let is_accepted = directives.max_stale.is_some_and(|max| max == u32::MAX || beyond <= seconds(max));
        Self { is_met: is_young && lasts, is_nearly_met: lasts && is_accepted }
    }
}

/// Whether the settings want it asked about although it may be fresh. Not where it has promised to stay as it is while it is
/// (RFC 8246 §2.1), nor where the client forbids to ask.
fn is_to_be_asked_about(policy: &CachePolicy, asked: &Asked<'_>, stored: &Stored, standing: Standing) -> bool {
    let revalidate = match asked.rule {
        Some(PathTreatment::Revalidate(revalidate)) => revalidate,
        _ => policy.revalidate,
    };
    let is_immutable = standing.is_fresh() && stored.directives.immutable;
    revalidate == Revalidate::Always
        && !is_immutable
        && !asked.directives.only_if_cached
        && !Conditions::of(stored, &[]).is_empty()
}

/// Why there is no answer of the upstream that could be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// It answered that it failed.
    Error,
    /// It did not answer.
    Disconnected,
    /// It was not asked.
    NoToken,
}

/// Whether this answer is given for want of one from the upstream; and if it is stale, why.
pub(super) fn may_stand_in(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    stored: &Stored,
    standing: Standing,
    lack: Lack,
) -> StandIn {
    let tolerated = asked.directives.stale_if_error.map(seconds);
    if !is_fallback(asked, stored, standing) || !Wish::of(asked, stored, standing).is_met && tolerated.is_none() {
        return StandIn::No;
    }
    if standing.is_fresh() {
        return StandIn::Fresh;
    }
    let (detail, allowed) = match lack {
        Lack::Disconnected => (Detail::StaleDisconnected, policy.stale_max),
        Lack::Error => (Detail::StaleOnError, window(policy, stored, tolerated)),
        Lack::NoToken => (Detail::StaleNoToken, window(policy, stored, tolerated)),
    };
    let allowed = allowed.min(policy.stale_max);
    match standing.staleness().and_then(|staleness| allowed.checked_sub(staleness)) {
        Some(left) if !allowed.is_zero() => StandIn::Stale(detail, left),
        _ => StandIn::No,
    }
}

/// Whether an answer is given in place of the upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn {
    Fresh,
    /// For this reason, and for so long still.
    Stale(Detail, Duration),
    No,
}

/// For how long the client, else the answer, else the settings let it be used when there is an error. What a client says of
/// its own request is an upper limit (RFC 5861 §4), which nobody else raises.
fn window(policy: &CachePolicy, stored: &Stored, tolerated: Option<Duration>) -> Duration {
    tolerated.or(stored.directives.stale_if_error.map(seconds)).unwrap_or(policy.stale_if_error)
}

/// Whether an answer may ever be given where the upstream has failed: not if the client wants it confirmed, or its sender
/// does.
pub(super) fn is_fallback(asked: &Asked<'_>, stored: &Stored, standing: Standing) -> bool {
    let is_usable = standing.is_fresh() || may_be_stale(&stored.directives);
    is_usable && !asked.directives.no_cache && !asks_each_time(&stored.directives)
}

/// Whether an answer is never to be used unasked.
///
/// One that wants to be asked about for the sake of fields without which it would be read wrongly cannot be used without
/// them, so it is meant as a whole.
pub(super) fn asks_each_time(directives: &ResponseDirectives) -> bool {
    is_about_all(&directives.no_cache)
}

/// Whether a directive for some fields or all is in effect about the whole answer: without its `Content-Type` or `Vary`
/// nobody knows what it is.
pub(super) fn is_about_all(scope: &Scope) -> bool {
    const MEANING: [&str; 5] = ["cache-control", "content-encoding", "content-range", "content-type", "vary"];
    match scope {
        Scope::None => false,
        Scope::Fields(names) => names.iter().any(|name| MEANING.contains(&name.as_str())),
        Scope::All => true,
    }
}

/// Whether the sender of an answer lets it be used after its lifetime at all. `s-maxage` forbids it as `proxy-revalidate`
/// does (RFC 9111 §5.2.2.10).
fn may_be_stale(directives: &ResponseDirectives) -> bool {
    let is_forbidden = directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage.is_some();
    !is_forbidden && !asks_each_time(directives)
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(u64::from(count))
}
