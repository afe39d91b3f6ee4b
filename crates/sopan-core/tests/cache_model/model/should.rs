//! What should be: whether an answer was kept back that is plainly there and plainly good.

use http::HeaderMap;
use http::header::{
    CONTENT_LOCATION, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION,
    RANGE, SET_COOKIE,
};
use sopan_core::cache::Failure;
use sopan_core::policy::{PathTreatment, Revalidate};

use super::may::is_equal;
use super::{Cause, Client, Model, Verdict, Version, require, target};
use crate::fields;
use crate::history::Moment;
use crate::reading::{self, Reading, Says};

impl Model {
    /// Complains if a request was not answered from store although that is plainly right.
    pub(crate) fn judge_not_reused(&self, client: &Client, now: Moment, cause: Cause) -> Verdict {
        for version in &self.versions {
            if self.is_plainly_there(version, client) && self.is_plainly_good(version, now, cause) {
                return Err(format!("{} is good, and is not given", version.describe()));
            }
        }
        Ok(())
    }

    /// Complains if the upstream is not asked whether what is plainly in store is still good.
    pub(crate) fn judge_question(&self, client: &Client, sent: &HeaderMap) -> Verdict {
        let is_plain = [RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().all(|name| !client.headers.contains_key(name));
        for version in self.versions.iter().filter(|version| is_plain && self.is_plainly_there(version, client)) {
            if let Some(tag) = fields::text(&version.headers, &ETAG) {
                let asked = fields::text(sent, &IF_NONE_MATCH);
                require(asked.is_some_and(|asked| fields::is_weakly_in(&tag, &asked)), "its tag is not asked about")?;
            } else if fields::text(&version.headers, &LAST_MODIFIED)
                .is_some_and(|modified| fields::date(&modified).is_some())
            {
                require(sent.contains_key(IF_MODIFIED_SINCE), "its date is not asked about")?;
            }
        }
        Ok(())
    }

    /// Whether a version is in store, whatever a careful cache would do, and for this request more than any other.
    fn is_plainly_there(&self, version: &Version, client: &Client) -> bool {
        let exchange = &self.past[version.origin];
        let (origin, reading) = (&exchange.client, Reading::of(&version.headers, &self.policy));
        let is_plain = |client: &Client| {
            let has_none = [IF_MATCH, IF_UNMODIFIED_SINCE].iter().all(|name| !client.headers.contains_key(name));
            has_none && !client.has_body && matches!(client.rule, None | Some(PathTreatment::DefaultTtl(_)))
        };
        let asked = reading::asked(&client.headers).directives;
        let is_asked_plainly = is_plain(client) && asked.is_empty() && matches!(client.method.as_str(), "GET" | "HEAD");
        let is_made_plainly = is_plain(origin)
            && origin.method == "GET"
            && exchange.sent.headers == origin.headers
            && [RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().all(|name| !origin.headers.contains_key(name));
        let known = [
            "max-age",
            "s-maxage",
            "public",
            "immutable",
            "must-revalidate",
            "proxy-revalidate",
            "stale-if-error",
            "stale-while-revalidate",
        ];
        let is_said_plainly = reading.directives.iter().all(|directive| known.contains(&directive.name.as_str()))
            && known
                .iter()
                .all(|name| reading.directives.iter().filter(|directive| directive.name == *name).count() <= 1)
            && matches!(self.lifetime(version), (Says::Explicitly, lifetime) if lifetime.low > 0);
        let is_plain_status = [200, 204, 301, 404, 410].contains(&version.status);
        let has_no_cookie = !version.headers.contains_key(SET_COOKIE);
        version.number < self.current
            && is_asked_plainly
            && is_made_plainly
            && is_said_plainly
            && is_plain_status
            && has_no_cookie
            && self.policy.revalidate == Revalidate::Stale
            && version.number == version.origin
            && version.is_whole()
            && self.is_selected(version, client).is_ok()
            && origin.secrets == client.secrets
            && self.is_undisturbed(version, client)
    }

    /// Whether nothing has come since that might have taken its place, nor before if its `Date` is later.
    fn is_undisturbed(&self, version: &Version, client: &Client) -> bool {
        let key = |version: &Version| (version.made(), version.received);
        let is_before = |other: &Version| {
            other.number != version.number && self.is_selected(other, client).is_ok() && key(other) >= key(version)
        };
        if self.versions.iter().any(is_before) {
            return false;
        }
        self.past[version.number + 1..self.current].iter().all(|later| {
            let is_safe = ["GET", "HEAD", "OPTIONS"].contains(&later.client.method.as_str());
            let leads_here = [LOCATION, CONTENT_LOCATION].iter().any(|name| {
                let leads = fields::text(&later.message.headers, name).and_then(|text| target(&text, &later.client));
                leads.as_ref() == Some(&client.target)
            });
            if !is_safe && (later.client.target == client.target || leads_here) {
                return false;
            }
            let is_elsewhere = later.client.target != client.target || later.client.host != client.host;
            let names = reading::nominated(&version.headers);
            let is_other_variant = names == reading::nominated(&later.message.headers)
                && names.is_some_and(|names| {
                    names.iter().any(|name| !is_equal(name, &later.client.headers, &client.headers))
                });
            let is_shared = |headers: &HeaderMap| {
                let reading = Reading::of(headers, &self.policy);
                ["public", "s-maxage", "must-revalidate"].iter().any(|name| reading.has(name))
            };
            // What one with a secret is told may make what is for everybody obsolete, but not what is another's alone.
            let is_other_client = later.client.secrets != client.secrets
                && !later.client.secrets.is_empty()
                && !client.secrets.is_empty()
                && !is_shared(&version.headers)
                && !is_shared(&later.message.headers);
            is_elsewhere || is_other_variant || is_other_client
        })
    }

    fn is_plainly_good(&self, version: &Version, now: Moment, cause: Cause) -> bool {
        let reading = Reading::of(&version.headers, &self.policy);
        let (age, lifetime) = (self.age(version, now), self.lifetime(version).1);
        if now < version.received {
            return false; // How old it is nobody knows.
        }
        if age.high < lifetime.low {
            return true;
        }
        let stale_for = age.high - lifetime.low;
        let within = |seconds: i64| {
            stale_for < seconds.min(i64::try_from(self.policy.stale_max.as_secs()).expect("short")) * 1000
        };
        let can_be_stale = !reading.forbids_stale();
        match cause {
            Cause::Itself => false,
            Cause::Failed(Failure::Disconnected) => can_be_stale && within(i64::MAX),
            Cause::Failed(Failure::NoToken | Failure::Error) | Cause::Answered(_) => {
                can_be_stale && reading.allowance("stale-if-error").is_some_and(within)
            }
        }
    }
}
