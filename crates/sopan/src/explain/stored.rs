//! What the cache does with an answer, in words, each with its reason: a section of an RFC, a field or a setting.

use std::time::Duration;

use http::StatusCode;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use sopan_core::cache::conditional::Conditions;
use sopan_core::cache::directives::Scope;
use sopan_core::cache::freshness::Source;
use sopan_core::cache::{Lookup, NotStored, Stored};
use sopan_core::policy::{CachePolicy, PathTreatment, Revalidate};

use super::cached::{Audience, Cached, Fate, Kept, Stale};
use super::show::seconds;
use super::steps::step;
use super::{Answer, Step};

/// All of it, in the order in which it happens.
pub(super) fn of(cached: Option<&Cached>, answer: &Answer, policy: Option<&CachePolicy>) -> Vec<Step> {
    let (Some(cached), Some(policy)) = (cached, policy) else {
        return vec![step("cache", "there is none", "cache is off")];
    };
    let mut steps = match &cached.fate {
        Fate::Unsatisfied => {
            let says = "the request would not get this answer: it wants one from store or none, and gets 504";
            vec![step("cache", says, "only-if-cached, RFC 9111 §5.2.1.7")]
        }
        Fate::Passed(why) => vec![passed(*why, answer, policy)],
        Fate::Stored(kept) => kept_steps(kept, answer, policy),
    };
    steps.extend(cached.untrue.map(untrue));
    steps
}

fn passed(why: NotStored, answer: &Answer, policy: &CachePolicy) -> Step {
    let method = &answer.method;
    let because = match why {
        NotStored::Method => format!("answers to {method} are not used for other requests, RFC 9110 §9.2.3"),
        NotStored::Bypass => match rule(answer, policy) {
            Some(PathTreatment::Bypass) => "a rule of paths says bypass".to_owned(),
            _ => "the cache has no part in such requests".to_owned(),
        },
        NotStored::RequestNoStore => "the request says no-store, RFC 9111 §5.2.1.5".to_owned(),
        NotStored::NoStore => "it says no-store, RFC 9111 §5.2.2.5".to_owned(),
        NotStored::Private => {
            "it says private, and the request has no credential by which its client could be known again, \
             RFC 9111 §5.2.2.7"
                .to_owned()
        }
        NotStored::SetCookie => "it sets a cookie, and store_set_cookie is off".to_owned(),
        NotStored::VaryStar => "Vary: * says that no other request would get it, RFC 9111 §4.1".to_owned(),
        NotStored::Status => status(answer.status),
        NotStored::NoLifetime => no_lifetime(policy),
        NotStored::Part => "it cannot be told which bytes of the whole it has, RFC 9110 §14.4".to_owned(),
        NotStored::TooLarge => format!("its body is longer than entry_bytes_max of {} bytes", policy.entry_bytes_max),
    };
    step("cache", "is not stored", because)
}

fn status(status: StatusCode) -> String {
    match status.as_u16() {
        429 => "answers with 429 never are, RFC 6585 §4".to_owned(),
        503 => "a 503 with Retry-After is about now, and not about what was asked for".to_owned(),
        code => format!("answers with {code} are not, RFC 9111 §3"),
    }
}

fn no_lifetime(policy: &CachePolicy) -> String {
    let default = match policy.default_ttl {
        None => ", and default_ttl is none",
        Some(_) => {
            ", and default_ttl is for successful answers to GET of a status like 200 or 204, not for streams of events"
        }
    };
    format!(
        "it does not say how long it may be used, and has neither ETag nor Last-Modified by which it could be asked \
         about{default}"
    )
}

fn rule(answer: &Answer, policy: &CachePolicy) -> Option<PathTreatment> {
    policy.rule(&answer.target)
}

fn kept_steps(kept: &Kept, answer: &Answer, policy: &CachePolicy) -> Vec<Step> {
    let Kept { stored, age, left, .. } = kept;
    let mut steps = vec![whose(kept, answer)];
    steps.extend(variants(stored));
    steps.push(fresh(stored, answer, policy));
    if !left.is_zero() {
        steps.push(step("age", format!("{} as it comes", seconds(*age)), "Date and Age, RFC 9111 §4.2.3"));
        steps.push(while_fresh(kept, answer, policy));
    }
    steps.push(when_stale(kept));
    steps.extend(stale(&kept.stale, stored, policy));
    steps
}

/// Who may get it.
fn whose(kept: &Kept, answer: &Answer) -> Step {
    let has_key = answer.request.contains_key(AUTHORIZATION);
    let (says, because) = match kept.audience {
        Audience::Owner => (
            "is stored, for requests with the same credential alone",
            "it does not say that it is for all, RFC 9111 §3.5",
        ),
        Audience::Strangers => (
            "is stored, for requests without a credential",
            "with one there may be another answer, and it says nothing of that",
        ),
        Audience::All if has_key => ("is stored, for all", "it says so, RFC 9111 §3.5"),
        Audience::All => ("is stored, for all", "RFC 9111 §3"),
    };
    step("cache", says, because)
}

/// For which requests it is, if not for all.
fn variants(stored: &Stored) -> Option<Step> {
    let names: Vec<_> = stored.selecting.fields.iter().map(|(name, _)| name.as_str()).collect();
    (!names.is_empty())
        .then(|| step("variant", format!("for requests with the same {}", names.join(", ")), "Vary, RFC 9111 §4.1"))
}

fn fresh(stored: &Stored, answer: &Answer, policy: &CachePolicy) -> Step {
    let lifetime = seconds(stored.freshness.lifetime);
    let directives = &stored.directives;
    let field = if directives.is_targeted { "a field that speaks to this cache" } else { "Cache-Control" };
    let because = match stored.freshness.source {
        Source::Directive if directives.s_maxage.is_some() => format!("s-maxage of {field}"),
        Source::Directive => format!("max-age of {field}"),
        Source::Expires => "Expires, less Date".to_owned(),
        Source::Default => match rule(answer, policy) {
            Some(PathTreatment::DefaultTtl(_)) => {
                "default-ttl of a rule of paths, since it says nothing itself".to_owned()
            }
            _ => "default_ttl, since it says nothing itself".to_owned(),
        },
        Source::Heuristic => "a tenth of the time since Last-Modified, RFC 9111 §4.2.2".to_owned(),
        Source::None if stored.directives.no_cache == Scope::All => {
            return step("fresh", "never", "it says no-cache, RFC 9111 §5.2.2.4");
        }
        Source::None => return step("fresh", "never", "nothing says how long it may be used unasked"),
    };
    step("fresh", format!("for {lifetime}"), because)
}

fn while_fresh(kept: &Kept, answer: &Answer, policy: &CachePolicy) -> Step {
    let for_long = format!("for {} ", seconds(kept.left));
    match &kept.at_once {
        Lookup::Reuse(_) => step("then", format!("{for_long}given without asking the API"), ""),
        Lookup::Send(send) => {
            let says = match &send.ask {
                Some(ask) => format!("{for_long}asked about each time, with {}", with(&ask.conditions)),
                None => format!("{for_long}asked for again each time"),
            };
            step("then", says, each_time(kept, answer, policy))
        }
        Lookup::Unsatisfied => step("then", "not given to this request", "only-if-cached"),
    }
}

/// Why a fresh answer is not given unasked.
fn each_time(kept: &Kept, answer: &Answer, policy: &CachePolicy) -> &'static str {
    let revalidate = match rule(answer, policy) {
        Some(PathTreatment::Revalidate(revalidate)) => revalidate,
        _ => policy.revalidate,
    };
    match (revalidate, &kept.stored.directives.no_cache) {
        (_, Scope::All) => "no-cache, RFC 9111 §5.2.2.4",
        (Revalidate::Always, _) => "revalidate is always",
        (Revalidate::Stale, _) => "the request asks for it",
    }
}

/// By which fields of a request an answer is asked about.
fn with(conditions: &Conditions) -> &'static str {
    match (&conditions.none_match, &conditions.modified_since) {
        (Some(_), Some(_)) => "If-None-Match and If-Modified-Since",
        (Some(_), None) => "If-None-Match",
        (None, _) => "If-Modified-Since",
    }
}

fn when_stale(kept: &Kept) -> Step {
    let about = if kept.left.is_zero() { "then" } else { "when stale" };
    match &kept.later {
        Lookup::Send(send) => match &send.ask {
            Some(ask) => {
                let says = format!("asked about with {}; after a 304 it is used again", with(&ask.conditions));
                step(about, says, "RFC 9111 §4.3")
            }
            None => step(about, "asked for again", "it has neither ETag nor Last-Modified"),
        },
        Lookup::Reuse(_) => step(about, "given all the same", "max-stale, RFC 9111 §5.2.1.2"),
        Lookup::Unsatisfied => step(about, "not given to this request", "only-if-cached, RFC 9111 §5.2.1.7"),
    }
}

/// How long it is given although it is stale.
fn stale(stale: &Stale, stored: &Stored, policy: &CachePolicy) -> Vec<Step> {
    let Stale { meanwhile, accepted, disconnected, on_error, no_token } = stale;
    let line = |span: &Option<Duration>, when: &str, because: &'static str| {
        span.map(|span| step("stale", format!("given for up to {} more {when}", seconds(span)), because))
    };
    let for_errors = match stored.directives.stale_if_error {
        Some(_) => "stale-if-error, RFC 5861 §4",
        None => "stale_if_error",
    };
    let lines = [
        line(meanwhile, "while it is asked about in the background", "stale-while-revalidate, RFC 5861 §3"),
        line(accepted, "to this request", "max-stale, RFC 9111 §5.2.1.2"),
        line(disconnected, "when the API cannot be reached, or is held to be down", "stale_max, RFC 9111 §4.2.4"),
        line(on_error, "when it answers with 500, 502, 503 or 504", for_errors),
        line(no_token, "when no token is there in time", for_errors),
    ];
    let steps: Vec<_> = lines.into_iter().flatten().collect();
    match policy.stale_max.is_zero() {
        _ if !steps.is_empty() => steps,
        true => vec![step("stale", "never given", "stale_max is zero")],
        false => vec![step("stale", "never given", "the answer or the request forbids it, RFC 9111 §4.2.4")],
    }
}

fn untrue(others: usize) -> Step {
    let says = match others {
        0 => "what is stored for this path is no longer used",
        _ => "what is stored for this path, and for where Location and Content-Location lead, is no longer used",
    };
    step("untrue", says, "the request may have changed it, RFC 9111 §4.4")
}

fn audience(audience: Audience) -> &'static str {
    match audience {
        Audience::All => "all",
        Audience::Strangers => "no-credential",
        Audience::Owner => "credential",
    }
}

/// The same for programs.
pub(super) fn json(cached: &Cached) -> Value {
    let (why, kept) = match &cached.fate {
        Fate::Unsatisfied => (Some("only-if-cached"), None),
        Fate::Passed(why) => (Some(why.word()), None),
        Fate::Stored(kept) => (None, Some(kept)),
    };
    let span = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    let source = |kept: &Kept| match kept.stored.freshness.source {
        Source::Directive => "directive",
        Source::Expires => "expires",
        Source::Default => "default_ttl",
        Source::Heuristic => "heuristic",
        Source::None => "none",
    };
    let vary = |kept: &Kept| kept.stored.selecting.fields.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
    json!({
        "stored": kept.is_some(),
        "why_not": why,
        "for": kept.map(|kept| audience(kept.audience)),
        "vary": kept.map(|kept| vary(kept)),
        "lifetime_s": kept.map(|kept| kept.stored.freshness.lifetime.as_secs_f64()),
        "lifetime_by": kept.map(|kept| source(kept)),
        "age_s": kept.map(|kept| kept.age.as_secs_f64()),
        "given_unasked": kept.map(|kept| kept.is_given_at_once()),
        "stale_s": kept.map(|kept| json!({
            "while_revalidate": span(kept.stale.meanwhile),
            "accepted": span(kept.stale.accepted),
            "disconnected": span(kept.stale.disconnected),
            "on_error": span(kept.stale.on_error),
            "no_token": span(kept.stale.no_token),
        })),
        "makes_untrue": cached.untrue.is_some(),
    })
}
