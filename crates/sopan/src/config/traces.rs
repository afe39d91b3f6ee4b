//! Traces, as they are asked for.

use http::HeaderMap;
use http::uri::{PathAndQuery, Uri};
use sopan_core::headers::redact_url;
use sopan_core::trace::Sampler;
use sopan_engine::Target;

/// Which traces are recorded, and where they go.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    pub(crate) to: Collector,
    pub(crate) sampler: Sampler,
    /// What sopan is called in them.
    pub(crate) service_name: String,
    /// What goes with them beside; all of it counts as secret.
    pub(crate) fields: HeaderMap,
}

/// Who takes them.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    pub(crate) target: Target,
    pub(crate) path: PathAndQuery,
}

/// Where collectors take traces, if their URL does not say.
const PATH: &str = "/v1/traces";

impl Collector {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // As a whole, since it says what is wrong with a URL.
        let whole = Target::parse(text).map_err(|error| {
            let text = redact_url(text);
            format!(
                "`{text}` is not where traces can go: {}; write for example http://127.0.0.1:4318/v1/traces",
                error.why()
            )
        })?;
        let scheme = if whole.is_tls() { "https" } else { "http" };
        let host = whole.authority().to_str().unwrap_or_default();
        let target = Target::parse(&format!("{scheme}://{host}")).map_err(|error| error.to_string())?;
        let path = text.trim().parse::<Uri>().ok().and_then(|uri| uri.into_parts().path_and_query);
        let path = path.filter(|path| path.path() != "/").unwrap_or_else(|| PathAndQuery::from_static(PATH));
        Ok(Self { target, path })
    }
}

/// Traces on their way to being asked for.
#[derive(Debug, Clone)]
pub(crate) struct TracesDraft {
    pub(super) otlp: Option<Collector>,
    pub(super) sampler: Sampler,
    pub(super) service_name: String,
    pub(super) fields: HeaderMap,
}

impl TracesDraft {
    /// Before anything is put.
    pub(super) fn new() -> Self {
        let sampler = Sampler::new(0.0).expect("a share of ours");
        Self { otlp: None, sampler, service_name: String::new(), fields: HeaderMap::new() }
    }

    pub(super) fn made(self) -> Option<Traces> {
        let Self { otlp, sampler, service_name, fields } = self;
        Some(Traces { to: otlp?, sampler, service_name, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_place_and_a_path() {
        for (text, target, path) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318", "/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318", "/v1/traces"),
            ("https://otlp.test/otlp/v1/traces", "https://otlp.test", "/otlp/v1/traces"),
            ("https://otlp.test:443/api/", "https://otlp.test", "/api/"),
        ] {
            let read = Collector::parse(text).unwrap();
            assert_eq!((read.target.to_string().as_str(), read.path.as_str()), (target, path));
        }
    }
}
