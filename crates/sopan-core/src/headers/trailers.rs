//! What may not come after a body.

use http::header::{HeaderMap, HeaderName};

use super::forwarded::tells_who_asked;
use super::hop_by_hop::is_hop_by_hop;

/// Whether this field has no place after a body, whoever sent it there (RFC 9110 §6.5.1, RFC 9112 §7.1.2): it would
/// have to be known before the body is, to tell where the message ends, for whom it is, who sends it, under which
/// conditions, or what its bytes are. A receiver that merges trailers into the head would take one for what the head
/// never said.
///
/// `Authentication-Info` is not among them: its scheme may ask for it there (RFC 9110 §11.6.3).
fn belongs_to_the_head(name: &HeaderName) -> bool {
    let is_condition = || name.as_str().starts_with("if-");
    matches!(
        name.as_str(),
        // Framing and routing.
        "content-length" | "host" | "trailer" | "via"
        // Who sends it.
        | "authorization" | "cookie" | "cookie2" | "set-cookie" | "set-cookie2" | "www-authenticate" | "x-api-key"
        // Controls of the request, and of the answer.
        | "cache-control" | "expect" | "max-forwards" | "pragma" | "prefer" | "range"
        | "age" | "date" | "expires" | "location" | "retry-after" | "vary" | "warning"
        // The bytes of the body.
        | "content-encoding" | "content-range" | "content-type"
    ) || is_condition()
        || tells_who_asked(name)
}

/// Takes off what may not be passed on after a body: what belongs to the hop or to the head, and what `Connection`
/// named in the head, as [`strip_hop_by_hop`](super::strip_hop_by_hop) told.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::headers::strip_trailers;
///
/// let mut trailers = HeaderMap::new();
/// trailers.insert("content-length", HeaderValue::from_static("5"));
/// trailers.insert("x-sum", HeaderValue::from_static("7"));
/// strip_trailers(&mut trailers, &[]);
/// assert_eq!(trailers.keys().collect::<Vec<_>>(), ["x-sum"]);
/// ```
pub fn strip_trailers(trailers: &mut HeaderMap, named_by_connection: &[HeaderName]) {
    // Who hands fields on as variables takes `_` and `-` for the same.
    let looks_like_one = |name: &HeaderName| {
        let twin = name.as_str().contains('_').then(|| HeaderName::try_from(name.as_str().replace('_', "-")));
        matches!(twin, Some(Ok(twin)) if is_hop_by_hop(&twin) || belongs_to_the_head(&twin))
    };
    let goes = |name: &HeaderName| {
        is_hop_by_hop(name) || belongs_to_the_head(name) || named_by_connection.contains(name) || looks_like_one(name)
    };
    while let Some(name) = trailers.keys().find(|name| goes(name)).cloned() {
        trailers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_what_may_come_late_is_left() {
        let named = [HeaderName::from_static("x-hop")];
        for (name, stays) in [
            ("content_length", false),
            ("transfer_encoding", false),
            ("x_sum", true),
            ("transfer-encoding", false),
            ("content-length", false),
            ("host", false),
            ("connection", false),
            ("keep-alive", false),
            ("te", false),
            ("upgrade", false),
            ("trailer", false),
            ("authorization", false),
            ("proxy-authorization", false),
            ("cookie", false),
            ("set-cookie", false),
            ("www-authenticate", false),
            ("cache-control", false),
            ("expect", false),
            ("max-forwards", false),
            ("forwarded", false),
            ("x-forwarded-for", false),
            ("x-real-ip", false),
            ("range", false),
            ("if-match", false),
            ("if-range", false),
            ("if-unmodified-since", false),
            ("location", false),
            ("retry-after", false),
            ("content-encoding", false),
            ("content-type", false),
            ("content-range", false),
            ("x-hop", false),
            ("etag", true),
            ("content-digest", true),
            ("authentication-info", true),
            ("server-timing", true),
            ("grpc-status", true),
            ("x-if-any", true),
        ] {
            let name = HeaderName::from_static(name);
            let mut trailers = HeaderMap::new();
            for value in ["1", "2"] {
                trailers.append(&name, HeaderValue::from_static(value));
            }
            strip_trailers(&mut trailers, &named);
            assert_eq!(trailers.len(), if stays { 2 } else { 0 }, "{name}");
        }
    }
}
