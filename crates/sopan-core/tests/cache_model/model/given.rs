//! What is: whether what a client gets may be given, and is made of an answer that may be in store.

use http::HeaderMap;
use http::header::{
    AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE, SET_COOKIE,
};
use sopan_core::policy::PathTreatment;

use super::{Cause, Client, Model, Place, Response, Verdict, Version, require};
use crate::fields;
use crate::history::{Moment, date};
use crate::reading::{self, Reading, Says};
use crate::upstream::Byte;

impl Model {
    /// Whether the upstream's answer may be passed on as it came.
    pub(crate) fn judge_passed(&self, client: &Client) -> Verdict {
        let exchange = self.past.last().expect("it has answered");
        let message = &exchange.message;
        if exchange.sent.headers == client.headers {
            return Ok(());
        }
        match message.status {
            304 => {
                let known = is_known_to(client, &message.headers, exchange.received);
                require(known, "a 304 to our own question is passed to a client that does not have it")
            }
            206 | 416 if exchange.sent.headers.contains_key(RANGE) => {
                Err(format!("a {} to our own question is passed on", message.status))
            }
            _ => Ok(()),
        }
    }

    /// Whether an answer may stay in store as it is.
    pub(crate) fn judge_stored(&self, place: Place) -> Verdict {
        let is_so = self.versions.iter().any(|version| version.place() == place && !version.is_fleeting);
        require(is_so, &format!("what came with exchange {} must not be stored as of {}", place.0, place.1))
    }

    /// Whether a client may get this from store; `in_store` are the whole answers that are there for it.
    pub(crate) fn judge_reused(
        &self,
        client: &Client,
        response: &Response,
        now: Moment,
        cause: Cause,
        in_store: &[Place],
    ) -> Verdict {
        require(client.method == "GET" || client.method == "HEAD", "only GET and HEAD are answered from store")?;
        require(client.rule != Some(PathTreatment::Bypass), "the cache has no part in it")?;
        let is_upstreams = client.headers.contains_key(IF_MATCH) || client.headers.contains_key(IF_UNMODIFIED_SINCE);
        require(!is_upstreams, "only the upstream can judge If-Match and If-Unmodified-Since")?;
        let mut objections = Vec::new();
        for version in &self.versions {
            let explained = self
                .may_be_given(version, client, now, cause, response.is_asked_about)
                .and_then(|()| self.is_made_of(version, client, response, now))
                .and_then(|()| self.is_newest(version, client, now, cause, response.is_asked_about, in_store));
            match explained {
                Ok(()) => return Ok(()),
                Err(why) => objections.push(format!("  not {}: {why}", version.describe())),
            }
        }
        Err(format!("nothing explains the answer from store\n{}", objections.join("\n")))
    }

    fn may_be_given(
        &self,
        version: &Version,
        client: &Client,
        now: Moment,
        cause: Cause,
        is_asked_about: bool,
    ) -> Verdict {
        let has_answered = version.number >= self.current;
        if has_answered {
            require(!version.is_gone, "it was updated once more")?;
        } else {
            self.is_selected(version, client)?;
        }
        self.may_use(version, client, now, cause, is_asked_about)
    }

    /// RFC 9111 §4: of several suitable ones the most recent one is used; but a client's own may count before those for all,
    /// as in a cache of its own before this one.
    fn is_newest(
        &self,
        version: &Version,
        client: &Client,
        now: Moment,
        cause: Cause,
        is_asked_about: bool,
        in_store: &[Place],
    ) -> Verdict {
        for other in self.versions.iter().filter(|other| other.is_whole() && in_store.contains(&other.place())) {
            let is_surely_meant = other.chosen_for.iter().all(|&number| self.agrees(other, number, client));
            let is_suitable = is_surely_meant && self.may_be_given(other, client, now, cause, is_asked_about).is_ok();
            let is_newer = other.made() > version.made() && other.received > version.received;
            let is_meant = |version: &Version| {
                let reading = Reading::of(&version.headers, &self.policy);
                let is_for_all = ["public", "s-maxage", "must-revalidate"].iter().any(|name| reading.has(name));
                is_for_all || self.past[version.number].client.secrets == client.secrets
            };
            let is_before = !client.secrets.is_empty() && is_meant(version) && !is_meant(other);
            if version.number < self.current && is_suitable && is_newer && !is_before {
                return Err(format!("{} is newer", other.describe()));
            }
        }
        Ok(())
    }

    /// Whether what the client gets is this, field by field and byte by byte.
    fn is_made_of(&self, version: &Version, client: &Client, response: &Response, now: Moment) -> Verdict {
        self.has_its_fields(version, response)?;
        let age = self.age(version, now);
        let told: i64 =
            fields::text(&response.headers, &AGE).and_then(|age| age.parse().ok()).ok_or("it has no Age")?;
        require((age.low / 1000..=(age.high + 999) / 1000).contains(&told), &format!("Age is {told}, not {age:?} ms"))?;
        let (says, lifetime) = self.lifetime(version);
        // Nobody has to guess.
        let shortest = if says == Says::Explicitly { lifetime.low } else { 0 };
        let ttl = ((shortest - age.high) / 1000 - 1)..=((lifetime.high - age.low + 999) / 1000 + 1);
        require(ttl.contains(&response.ttl), &format!("the ttl is {}, not within {ttl:?}", response.ttl))?;
        if version.number < self.current {
            let is_surely_stale = age.low >= lifetime.high;
            require(response.is_called_stale || !is_surely_stale, "it is stale, and not called so")?;
        }
        let is_head = client.method == "HEAD";
        let range = fields::text(&client.headers, &RANGE).filter(|_| !is_head && version.status == 200);
        let ranges = range.and_then(|range| fields::ranges(&range)).filter(|_| may_look_at_range(client, version));
        let bytes: Vec<Byte> = response.runs.iter().flat_map(|(_, run)| run.clone()).collect();
        let is_known = (200..300).contains(&version.status) && is_known_to(client, &version.headers, version.received);
        if response.status == 304 {
            require(bytes.is_empty(), "a 304 has no body")?;
            return require(is_known, "the client does not have it");
        }
        // RFC 9111 §4.3.2 asks it of a 200 only.
        require(!(is_known && version.status == 200), "the client has it already, and should get a 304")?;
        match (response.status, ranges) {
            (206, Some(ranges)) => self.is_part_of(version, &ranges, response),
            (416, Some(ranges)) => {
                let complete = version.complete.ok_or("it is not known how long it is")?;
                require(response.complete == Some(complete), "the length of the whole is wrong")?;
                require(ranges.iter().all(|range| range.within(complete).is_none()), "some of the range is there")
            }
            (206 | 416, None) => Err("nobody asked for a part".to_owned()),
            (status, ranges) => {
                require(status == version.status, "it has another status")?;
                let is_one = ranges.as_ref().is_some_and(|ranges| ranges.len() == 1);
                let is_there =
                    ranges.is_some_and(|ranges| ranges.iter().any(|range| range.within(version.body.len()).is_some()));
                require(!(is_one && is_there), "the client asked for a part of it")?;
                let length = fields::text(&response.headers, &CONTENT_LENGTH);
                let length_fits =
                    length.is_none_or(|length| Some(length) == version.complete.map(|whole| whole.to_string()));
                require(length_fits, "its Content-Length is not that of the body")?;
                if is_head {
                    return require(bytes.is_empty(), "the answer to a HEAD has no body");
                }
                require(version.is_whole(), "only a part of it is there")?;
                require(bytes == version.body, "it has other bytes")
            }
        }
    }

    /// RFC 9110 §14.2, §15.3.7: the bytes that were asked for and are there, no others, each where it belongs.
    fn is_part_of(&self, version: &Version, ranges: &[fields::Range], response: &Response) -> Verdict {
        for (first, run) in &response.runs {
            let within = *first >= version.first && first + run.len() <= version.last() && !run.is_empty();
            require(within, "a part has bytes that are not there")?;
            let held = &version.body[first - version.first..][..run.len()];
            require(held == &run[..], "a part has other bytes")?;
        }
        require(
            response.complete.is_none_or(|complete| version.complete == Some(complete)),
            "the length of the whole is wrong",
        )?;
        require(response.complete.is_some() == version.complete.is_some(), "the length of the whole is known")?;
        // Without the whole length, only what has both ends can be known to be all that was asked for.
        let length = version.complete.unwrap_or(version.last());
        let is_asked = |at: usize| {
            ranges.iter().any(|range| range.within(length).is_some_and(|(first, last)| (first..=last).contains(&at)))
        };
        let is_given = |at: usize| response.runs.iter().any(|(first, run)| (*first..first + run.len()).contains(&at));
        for at in 0..length {
            require(
                is_asked(at) == is_given(at),
                &format!("byte {at}: asked {}, given {}", is_asked(at), is_given(at)),
            )?;
        }
        let needs_whole =
            ranges.iter().any(|range| !matches!(range, fields::Range::From(_, Some(last)) if *last < length));
        require(version.complete.is_some() || !needs_whole, "it is not known where the whole ends")
    }

    fn has_its_fields(&self, version: &Version, response: &Response) -> Verdict {
        let reading = Reading::of(&version.headers, &self.policy);
        let is_new = version.number >= self.current;
        let (private, no_cache) = (reading.listed("private"), reading.listed("no-cache"));
        for name in version.headers.keys().chain(response.headers.keys()) {
            if [AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE].contains(name) {
                continue;
            }
            let lines = |headers: &HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
            let (own, given) = (lines(&version.headers), lines(&response.headers));
            let is_private = private.iter().any(|listed| name == listed.as_str());
            let is_unasked = no_cache.iter().any(|listed| name == listed.as_str());
            let is_cookie = name == SET_COOKIE && !self.policy.store_set_cookie;
            let may_lack =
                is_private || is_unasked || is_cookie || version.unkept.iter().any(|unkept| name == unkept.as_str());
            let must_lack = !is_new
                && (is_private || is_unasked || is_cookie)
                && (!is_private || self.past[version.number].client.secrets.is_empty());
            require(!must_lack || given.is_empty(), &format!("{name} must not be given to others"))?;
            require(own == given || (may_lack && given.is_empty()), &format!("{name} is {given:?}, not {own:?}"))?;
        }
        Ok(())
    }
}

/// Whether a client has it already (RFC 9110 §13.2.2, RFC 9111 §4.3.2).
fn is_known_to(client: &Client, headers: &HeaderMap, received: Moment) -> bool {
    if let Some(known) = fields::text(&client.headers, &IF_NONE_MATCH) {
        return known == "*" || fields::text(headers, &ETAG).is_some_and(|tag| fields::is_weakly_in(&tag, &known));
    }
    let read = |headers: &HeaderMap, name| fields::text(headers, name).and_then(|text| fields::date(&text));
    let Some(since) = read(&client.headers, &IF_MODIFIED_SINCE) else { return false };
    let received = date(received).to_str().ok().and_then(fields::date);
    // The first that is there counts, also if nobody can read it.
    let modified = match [LAST_MODIFIED, DATE].iter().find(|name| headers.contains_key(*name)) {
        Some(name) => read(headers, name),
        None => received,
    };
    modified.is_some_and(|modified| modified <= since)
}

/// RFC 9110 §13.1.5.
fn may_look_at_range(client: &Client, version: &Version) -> bool {
    let Some(given) = fields::text(&client.headers, &IF_RANGE) else { return true };
    if given.contains('"') {
        return reading::strong_tag(&version.headers).as_ref() == Some(&given);
    }
    // A date tells bodies apart only if they cannot have changed once more within it (RFC 9110 §8.8.2.2).
    let modified = fields::text(&version.headers, &LAST_MODIFIED);
    modified.as_ref() == Some(&given) && fields::date(&given) < version.made()
}
