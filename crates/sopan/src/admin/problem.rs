//! What is said to whoever asks for something that is not there, not allowed, or wrong: a problem body (RFC 9457).

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;

/// The secret as programs say it.
pub(super) const BEARER: &str = "Bearer realm=\"sopan\"";

/// A request that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    /// As in the `type` of a refusal of the proxy.
    reason: &'static str,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, reason: &'static str, detail: impl Into<String>) -> Self {
        Self { status, reason, detail: detail.into() }
    }

    /// Its body cannot be read, or says what cannot be done.
    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let body = serde_json::json!({
            "type": format!("urn:sopan:{}", self.reason),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(format!("{body}\n")));
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            // A browser asks its user for a password then, and sends it with all that the page asks for.
            StatusCode::UNAUTHORIZED => {
                for scheme in [BEARER, "Basic realm=\"sopan\", charset=\"UTF-8\""] {
                    fields.append(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
                }
            }
            // The router adds those that there are.
            StatusCode::METHOD_NOT_ALLOWED => drop(fields.remove(ALLOW)),
            _ => {}
        }
        response
    }
}
