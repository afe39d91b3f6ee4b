//! What may be: whether an answer may be in store, for whom it is, and whether it may be used at a time.

use http::header::{AUTHORIZATION, ETAG, LAST_MODIFIED, RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderName};
use sopan_core::cache::Failure;
use sopan_core::policy::{PathTreatment, Revalidate};

use super::{Cause, Client, Model, Verdict, Version, require};
use crate::fields;
use crate::history::Moment;
use crate::reading::{self, Reading, Says, Span};

impl Model {
    /// Whether the last word on a version lets it be kept (RFC 9111 §3).
    pub(super) fn may_store(&self, version: &Version) -> Verdict {
        let client = &self.past[version.number].client;
        let (status, headers) = (version.status, &version.headers);
        let reading = Reading::of(headers, &self.policy);
        require(self.policy.on && client.rule != Some(PathTreatment::Bypass), "the cache has no part in it")?;
        require(!reading::asked(&client.headers).has("no-store"), "the request said no-store")?;
        let is_understood = status < 599;
        if reading.has("must-understand") && is_understood {
            // RFC 9111 §5.2.2.3: then no-store is not looked at.
        } else {
            require(!reading.has("must-understand"), "its status is not understood")?;
            require(!reading.has("no-store"), "the answer said no-store")?;
        }
        require(!reading.has_bare("private") || !client.secrets.is_empty(), "it is private to nobody known")?;
        require(status != 429 && status != 304, "its status is never stored")?;
        require(!(status == 503 && headers.contains_key(RETRY_AFTER)), "the upstream is busy")?;
        let hides_cookie =
            [reading.listed("private"), reading.listed("no-cache")].concat().contains(&"set-cookie".to_owned());
        let may_hold = self.policy.store_set_cookie || hides_cookie || version.origin != version.number;
        require(!headers.contains_key(SET_COOKIE) || may_hold, "it sets a cookie")?;
        require(version.body.len() as u64 <= self.policy.entry_bytes_max, "it is too large")?;
        let is_explicit = ["max-age", "s-maxage", "public", "private"].iter().any(|name| reading.has(name))
            || (!reading.is_targeted && headers.contains_key("expires"));
        // Of one that is there already, an update can only say that it must go.
        let is_there = version.origin != version.number;
        let is_allowed = is_explicit || is_there || reading::is_guessable(status);
        require(is_allowed, "nothing allows it to be stored")
    }

    fn default_ttl(&self, client: &Client) -> Option<std::time::Duration> {
        match client.rule {
            Some(PathTreatment::DefaultTtl(ttl)) => Some(ttl),
            _ => self.policy.default_ttl,
        }
    }

    pub(super) fn lifetime(&self, version: &Version) -> (Says, Span) {
        let client = &self.past[version.number].client;
        let reading = Reading::of(&version.headers, &self.policy);
        let default_ttl = self.default_ttl(client).filter(|_| client.method == "GET" || client.method == "HEAD");
        reading::lifetime(version.status, &version.headers, &reading, version.received, default_ttl)
    }

    pub(super) fn age(&self, version: &Version, now: Moment) -> Span {
        let initial = reading::initial_age(&version.headers, version.age, version.requested, version.received);
        let since = (now - version.received).max(0);
        Span { low: initial.low + since, high: initial.high + since }
    }

    /// Whether it is for this request at all, fresh or not (RFC 9111 §4, §4.1; whose it is, §3.5 and §5.2.2.7).
    pub(super) fn is_selected(&self, version: &Version, client: &Client) -> Verdict {
        require(!version.is_gone, "it was updated, or made untrue")?;
        require(!version.is_fleeting, "it must not be stored")?;
        let origin = &self.past[version.origin].client;
        require(origin.target == client.target && origin.host == client.host, "it is of another target")?;
        require(reading::nominated(&version.headers).is_some(), "it varies by everything")?;
        // If an update has changed its Vary, the request that counts may be the first one or that which brought the update.
        require(
            version.chosen_for.iter().any(|&number| self.agrees(version, number, client)),
            "it is for other fields (Vary)",
        )?;
        let of = &self.past[version.number].client;
        let reading = Reading::of(&version.headers, &self.policy);
        if of.secrets == client.secrets {
            return Ok(());
        }
        require(!reading.has_bare("private"), "it is private to another")?;
        let is_public = reading.has("public") || reading.has("s-maxage");
        let is_lifted = of.headers.contains_key(AUTHORIZATION) && reading.has("must-revalidate");
        require(of.secrets.is_empty() || is_public || is_lifted, "it is of another's credential")?;
        let says_for_all = is_public || reading.has("must-revalidate");
        let is_guess = of.secrets.is_empty() && self.lifetime(version).0 == Says::BySettings && !says_for_all;
        require(!is_guess || client.secrets.is_empty(), "only the settings would share it")
    }

    /// Whether a request says the same as that of an exchange in all fields that a version was chosen by.
    pub(super) fn agrees(&self, version: &Version, number: usize, client: &Client) -> bool {
        let mut names = reading::nominated(&version.headers).unwrap_or_default();
        // Who does not say how long it lasts does not say by what it was chosen either.
        if self.lifetime(version).0 == Says::BySettings {
            names.extend(["accept", "accept-language"].map(str::to_owned));
        }
        names.iter().all(|name| is_equal(name, &self.past[number].client.headers, &client.headers))
    }

    /// Whether it may be used for a request it is selected for without asking about it (RFC 9111 §4.2, §5.2.1).
    pub(super) fn may_use(
        &self,
        version: &Version,
        client: &Client,
        now: Moment,
        cause: Cause,
        is_asked_about: bool,
    ) -> Verdict {
        if version.number >= self.current {
            return Ok(()); // It has just been found good.
        }
        let reading = Reading::of(&version.headers, &self.policy);
        let asked = reading::asked(&client.headers);
        require(!reading.has_bare("no-cache"), "it has to be asked about (no-cache)")?;
        let (age, (_, lifetime)) = (self.age(version, now), self.lifetime(version));
        // Clocks are mended by a second, and read one after the other; by more they are set back, and no age is known.
        let is_maybe_fresh = age.low < lifetime.high && now + 1000 >= version.received;
        let max_stale = match asked.directives.iter().find(|directive| directive.name == "max-stale") {
            Some(directive) if directive.argument == fields::Argument::None => i64::MAX / 1000,
            _ => asked.allowance("max-stale").unwrap_or(0),
        };
        if cause == Cause::Itself {
            require(!asked.has("no-cache"), "the client wants it asked about (no-cache)")?;
            let always = matches!(client.rule, Some(PathTreatment::Revalidate(Revalidate::Always)))
                || (self.policy.revalidate == Revalidate::Always
                    && !matches!(client.rule, Some(PathTreatment::Revalidate(_))));
            let can_be = version.headers.contains_key(ETAG)
                || fields::text(&version.headers, &LAST_MODIFIED).is_some_and(|text| fields::date(&text).is_some());
            let is_promised = reading.has("immutable") && is_maybe_fresh;
            let may_not_ask = asked.has("only-if-cached") || is_promised;
            require(!(always && can_be) || may_not_ask, "it is to be asked about each time")?;
            if let Some(max_age) = asked.lifetime("max-age") {
                let is_young =
                    age.low <= (max_age + if asked.has("max-stale") { max_stale } else { 0 }).saturating_mul(1000);
                require(is_young || (reading.has("immutable") && is_maybe_fresh), "it is older than the client wants")?;
            }
            if let Some(min_fresh) = asked.allowance("min-fresh") {
                require(
                    lifetime.high - age.low >= min_fresh * 1000,
                    "it is not fresh for as long as the client wants",
                )?;
            }
        }
        if is_maybe_fresh {
            return Ok(());
        }
        require(!reading.forbids_stale(), "it must not be used stale")?;
        let policy_seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).expect("short");
        let mut allowed = max_stale;
        if is_asked_about && !asked.has("max-age") && !asked.has("min-fresh") {
            allowed = allowed.max(reading.allowance("stale-while-revalidate").unwrap_or(0));
        }
        allowed = match cause {
            Cause::Itself => allowed,
            Cause::Failed(Failure::Disconnected) => i64::MAX / 1000,
            Cause::Answered(status) if ![500, 502, 503, 504].contains(&status) => allowed,
            Cause::Failed(Failure::NoToken | Failure::Error) | Cause::Answered(_) => {
                // RFC 5861 §4: the scope of what a request says is this request.
                let named = asked.allowance("stale-if-error").or(reading.allowance("stale-if-error"));
                allowed.max(named.unwrap_or(policy_seconds(self.policy.stale_if_error)))
            }
        };
        allowed = allowed.min(policy_seconds(self.policy.stale_max));
        require(allowed > 0, "nothing allows it to be used stale")?;
        require(age.low - lifetime.high <= allowed.saturating_mul(1000), "it is stale for too long")
    }
}

/// Whether two requests say the same in a field: but for the case of languages and white space, which say nothing.
pub(super) fn is_equal(name: &str, one: &HeaderMap, other: &HeaderMap) -> bool {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
    let said = |headers: &HeaderMap| {
        let members = fields::text(headers, &name).map(|text| fields::members(&text));
        if name.as_str() == "accept-language" {
            return members.map(|members| members.iter().map(|member| member.to_lowercase()).collect());
        }
        members
    };
    said(one) == said(other)
}
