//! Whether what instances shall share can be shared.

use sopan_engine::Roots;

use super::super::draft::{Program, Treatment};
use super::super::problem::{Place, Problem};
use super::super::setting::Section;
use super::Resolved;

impl Resolved {
    /// Settings of Redis that say nothing by themselves, or do not fit each other or the upstreams.
    pub(crate) fn shared(&self, program: &Program, served: &[(String, Place, Treatment)], problems: &mut Vec<Problem>) {
        let shared = &program.shared;
        let Some(url) = &shared.url else {
            // What has a default says nothing either, but whoever copied the example has said it.
            for key in ["instances", "ca_file"] {
                if let Some((place, name)) = self.at_redis(key).filter(|_| self.is_read("url")) {
                    let add = if name.starts_with("--") { "--redis URL" } else { "url: redis://127.0.0.1:6379" };
                    let why = format!("nothing is shared, since no Redis is named; add {add}, or leave this away");
                    problems.push(Problem::error(place, name, why));
                }
            }
            return;
        };
        if let (Some(file), Some((place, name))) = (&shared.ca_file, self.at_redis("ca_file")) {
            if url.is_tls() {
                let checked = Roots { ca_file: Some(file.clone()) }.check();
                problems.extend(checked.err().map(|error| Problem::error(place, name, error)));
            } else {
                let why = "Redis is asked without TLS, which knows no certificates; write rediss://… as its url";
                problems.push(Problem::error(place, name, why));
            }
        }
        let Some((place, name)) = self.at_redis("url") else { return };
        if url.shows_password() {
            let why = "its password goes over the network as it is, and whoever is on the way can read it; write rediss://… \
                       if the server speaks TLS";
            problems.push(Problem::warning(place.clone(), name.clone(), why));
        }
        let has_limits = |treatment: &Treatment| !treatment.settings.lane.limits.is_empty();
        if !served.iter().any(|(.., treatment)| has_limits(treatment)) {
            let why = "no upstream has limits, so there is nothing to share; write limits, or leave Redis away";
            problems.push(Problem::warning(place.clone(), name.clone(), why));
        }
        for (upstream, at, _) in served.iter().filter(|(.., treatment)| treatment.settings.observe) {
            let why = format!(
                "it is only observed, so what it would do is reckoned by each instance for itself, and nothing of it is \
                 shared; take `observe` away from {upstream} when its limits shall be kept"
            );
            let key = format!("upstreams.{upstream}.observe");
            problems.push(Problem::warning(at.clone(), key, why).also(&place, "what would share them"));
        }
    }

    /// Where a setting of Redis was said, and what it is called there, if it was said.
    fn at_redis(&self, key: &str) -> Option<(Place, String)> {
        let mut values = self.values.iter().map(|(_, value)| value);
        let value = values.find(|value| (value.setting.section, value.setting.key) == (Section::Redis, key))?;
        let is_typed = match value.place {
            Place::Default => return None,
            Place::Flag(_) => true,
            Place::File(_) => false,
        };
        let flag = value.setting.typed().filter(|_| is_typed);
        Some((value.place.clone(), flag.unwrap_or_else(|| value.setting.path())))
    }
}
