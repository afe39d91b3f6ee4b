//! What does a request make untrue of what is stored (RFC 9111 §4.4)?

use http::{HeaderMap, Method, StatusCode};

/// Whether an answer to such a request makes what is stored for its target untrue: the method is unsafe, or nobody knows
/// what it does, and it has succeeded (2xx or 3xx).
pub fn invalidates(_method: &Method, _status: StatusCode) -> bool {
    false
}

/// The targets, in origin form, beside the request's own, that such an answer makes untrue: those of `Location` and
/// `Content-Location`, where they lead to the host that was asked, `http` as clients speak it. The fields are as the client
/// gets them, `target` is its target and `host` its `Host`.
pub fn others(_answer: &HeaderMap, _target: &str, _host: &[u8]) -> Vec<String> {
    Vec::new()
}
