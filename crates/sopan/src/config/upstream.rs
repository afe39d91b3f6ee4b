//! How an upstream is reached and treated: what `serve` and `fetch` have in common.

use http::StatusCode;
use sopan_core::policy::{BreakerPolicy, JitterKind, LanePolicy, Limit, OnLongRetryAfter, RetryPolicy, parse_duration};
use sopan_engine::{ClientCertificate, Roots, Settings, Target, TlsError};

use super::read::{Check, count, decimal, one_of, or_word, positive, size, switch};
use crate::cli;

/// The settings of an upstream before any flag is looked at. Where its URL is wrong, a stand-in takes its place, so that the
/// other flags can be checked too.
pub(super) fn defaults(target: Option<Target>) -> Settings {
    let stand_in = || Target::parse("http://localhost").expect("a URL of our own");
    Settings::new(target.unwrap_or_else(stand_in))
}

/// The name of the flag for a key of a policy.
pub(super) fn flag_of(key: &'static str) -> String {
    match key {
        "limits" => "--rate".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}

pub(super) fn limits(check: &mut Check, typed: &cli::Limits, settings: &mut Settings) {
    let lane = &mut settings.lane;
    if let Some(limits) = read_limits(check, &typed.rate, typed.burst.as_deref()) {
        lane.limits = limits;
    }
    check.set(&mut lane.headroom, "--headroom", &typed.headroom, count);
    check.set(&mut lane.rate_margin, "--rate-margin", &typed.rate_margin, str::parse);
    check.set(&mut lane.max_hold, "--max-hold", &typed.max_hold, parse_duration);
    breaker(check, &typed.breaker, &mut settings.breaker);
}

/// All limits, or the default where none is given.
fn read_limits(check: &mut Check, rates: &[String], burst: Option<&str>) -> Option<Vec<Limit>> {
    const UNLIMITED: &str = "unlimited";
    if rates.iter().any(|rate| rate.trim() == UNLIMITED) {
        if rates.len() > 1 || burst.is_some() {
            check.note("--rate", "`unlimited` stands alone; take away the other limits, or `unlimited`");
            return None;
        }
        return Some(Vec::new());
    }
    let mark = check.mark();
    let mut limits: Vec<Limit> =
        rates.iter().filter_map(|rate| check.read("--rate", rate, str::parse::<Limit>)).collect();
    if check.mark() != mark {
        return None;
    }
    match burst {
        Some(burst) => apply_burst(check, &mut limits, burst)?,
        None if limits.is_empty() => limits = LanePolicy::default().limits,
        None => {}
    }
    // Limits are told apart by how they are written, also in the metrics.
    let written: Vec<_> = limits.iter().map(ToString::to_string).collect();
    let twice = written.iter().enumerate().find(|(at, limit)| written[..*at].contains(limit));
    match twice {
        Some((_, limit)) => check.note("--rate", format_args!("`{limit}` is given twice; once is enough")),
        None => return Some(limits),
    }
    None
}

/// Gives the burst to the one rate that has none of its own; alone it means 10/s.
fn apply_burst(check: &mut Check, limits: &mut Vec<Limit>, burst: &str) -> Option<()> {
    if limits.is_empty() {
        limits.push("10/s".parse().ok()?);
    }
    let mut without: Vec<_> =
        limits.iter_mut().filter(|limit| matches!(limit, Limit::Rate(rate) if !rate.has_burst())).collect();
    let [Limit::Rate(rate)] = &mut without[..] else {
        let why = format!(
            "`{burst}` must belong to exactly one --rate without a burst of its own, but there are {}; \
             write bursts into the rates, such as --rate '10/s burst 20'",
            without.len()
        );
        check.note("--burst", why);
        return None;
    };
    let burst = check.read("--burst", burst, super::read::whole(1..=u64::from(sopan_core::policy::BURST_MAX)))?;
    *rate = check.take("--burst", rate.clone().with_burst(burst))?;
    Some(())
}

/// `on`, `off`, or settings such as `failures=3,open_for=2s`.
fn breaker(check: &mut Check, typed: &str, policy: &mut BreakerPolicy) {
    const FLAG: &str = "--breaker";
    const KEYS: &str = "failures, min_span, share, attempts_min, window, open_for, probes";
    match typed.trim() {
        "on" => return,
        "off" => return policy.on = false,
        _ => {}
    }
    let mark = check.mark();
    let mut seen = Vec::new();
    for item in typed.split(',').map(str::trim) {
        let Some((key, value)) = item.split_once('=') else {
            check.note(
                FLAG,
                format_args!("`{item}` is not allowed; write on, off, or settings such as failures=3,open_for=2s"),
            );
            continue;
        };
        let flag = format!("{FLAG} {key}");
        match key {
            _ if seen.contains(&key) => check.note(FLAG, format_args!("`{key}` is given twice")),
            "failures" => check.set(&mut policy.failures, &flag, value, count),
            "min_span" => check.set(&mut policy.min_span, &flag, value, parse_duration),
            "share" => check.set(&mut policy.share, &flag, value, decimal),
            "attempts_min" => check.set(&mut policy.attempts_min, &flag, value, count),
            "window" => check.set(&mut policy.window, &flag, value, parse_duration),
            "open_for" => check.set(&mut policy.open_for, &flag, value, parse_duration),
            "probes" => check.set(&mut policy.probes, &flag, value, count),
            _ => check.note(FLAG, format_args!("`{key}` is no setting of the breaker; there are {KEYS}")),
        }
        seen.push(key);
    }
    check.fit(mark, |key| format!("{FLAG} {key}"), policy.validate());
}

pub(super) fn retry(check: &mut Check, typed: &cli::Retry, replay: Option<&cli::Replay>, policy: &mut RetryPolicy) {
    let mark = check.mark();
    check.set(&mut policy.max_retries, "--max-retries", &typed.max_retries, count);
    check.set(&mut policy.backoff_base, "--backoff-base", &typed.backoff_base, parse_duration);
    check.set(&mut policy.backoff_cap, "--backoff-cap", &typed.backoff_cap, parse_duration);
    check.set(&mut policy.jitter, "--jitter", &typed.jitter, decimal);
    check.set(&mut policy.jitter_kind, "--jitter-kind", &typed.jitter_kind, one_of(JITTER_KINDS));
    check.set(&mut policy.max_retry_after, "--max-retry-after", &typed.max_retry_after, parse_duration);
    check.set(&mut policy.on_long_retry_after, "--on-long-retry-after", &typed.on_long_retry_after, one_of(ON_LONG));
    check.set(&mut policy.min_wait, "--min-wait", &typed.min_wait, parse_duration);
    check.set(&mut policy.default_wait, "--default-wait", &typed.default_wait, or_word("none", parse_duration));
    check.set(&mut policy.retry_after_jitter, "--retry-after-jitter", &typed.retry_after_jitter, parse_duration);
    let total = or_word("unlimited", parse_duration);
    check.set(&mut policy.total_timeout, "--total-timeout", &typed.total_timeout, total);
    check.set(&mut policy.attempt_timeout, "--attempt-timeout", &typed.attempt_timeout, parse_duration);
    check.set(&mut policy.retry_budget, "--retry-budget", &typed.retry_budget, switch);
    if let Some(replay) = replay {
        check.set(&mut policy.replay_bytes_max, "--replay-bytes-max", &replay.replay_bytes_max, size);
        check.set(&mut policy.replay_bytes_total, "--replay-bytes-total", &replay.replay_bytes_total, size);
    }
    policy.retry_on = typed.retry_on.iter().filter_map(|s| check.read("--retry-on", s, status)).collect();
    check.fit(mark, flag_of, policy.validate());
}

const JITTER_KINDS: [(&str, JitterKind); 3] =
    [("fraction", JitterKind::Fraction), ("full", JitterKind::Full), ("decorrelated", JitterKind::Decorrelated)];

const ON_LONG: [(&str, OnLongRetryAfter); 2] = [("give-up", OnLongRetryAfter::GiveUp), ("cap", OnLongRetryAfter::Cap)];

fn status(text: &str) -> Result<StatusCode, String> {
    let code = text.parse().ok().filter(|_| text.len() == 3);
    code.ok_or_else(|| format!("`{text}` is not a status; write for example 425,520"))
}

pub(super) fn connections(check: &mut Check, typed: &cli::Connections, settings: &mut Settings) {
    check.set(&mut settings.connect_timeout, "--connect-timeout", &typed.connect_timeout, positive);
    check.set(&mut settings.idle_timeout, "--idle-timeout", &typed.idle_timeout, positive);
    check.set(&mut settings.http2, "--http2", &typed.http2, switch);
    if let Some(file) = &typed.ca_file {
        let roots = Roots { ca_file: Some(file.into()) };
        // Checked here, since an upstream without TLS would never look at it.
        check.take("--ca-file", roots.check());
        settings.roots = roots;
    }
    client_certificate(check, typed, settings);
}

/// Both files or neither, and they belong together.
fn client_certificate(check: &mut Check, typed: &cli::Connections, settings: &mut Settings) {
    const CERT: &str = "--client-cert";
    const KEY: &str = "--client-key";
    let (certificate, key) = match (&typed.client_cert, &typed.client_key) {
        (None, None) => return,
        (Some(certificate), Some(key)) => (certificate.into(), key.into()),
        (Some(_), None) => return check.note(CERT, "it needs the private key too; add --client-key FILE"),
        (None, Some(_)) => return check.note(KEY, "it needs the certificate too; add --client-cert FILE"),
    };
    if !settings.target.is_tls() {
        return check.note(CERT, "the upstream is asked over plain http, which knows no certificates; write https://…");
    }
    let client = ClientCertificate { certificate, key };
    match client.check() {
        Ok(()) => settings.client_certificate = Some(client),
        Err(error @ TlsError::ClientKey { .. }) => check.note(KEY, error),
        Err(error) => check.note(CERT, error),
    }
}
