//! What a caller of the library can do about a failure: run it again later, or mend something first.

use http::StatusCode;

use crate::exchange::{Answer, End};
use crate::refusal::Refusal;

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It may succeed later: the upstream failed, was limited or could not be reached, and the retries are spent.
    #[error("{message}")]
    Transient {
        /// What happened, with status and URL.
        message: String,
        /// The upstream's last status, if it answered.
        status: Option<StatusCode>,
    },
    /// It will fail again until something is mended: the request, a setting, a certificate, the data.
    #[error("{message}")]
    Permanent {
        /// What happened, with status and URL.
        message: String,
        /// The upstream's status, if it answered.
        status: Option<StatusCode>,
    },
}

impl Error {
    pub(crate) fn permanent(message: String) -> Self {
        Self::Permanent { message, status: None }
    }

    /// The failure that an answer is, if it is one. `url` is shown as it is: redact it.
    pub fn of(answer: &Answer, url: &str) -> Option<Self> {
        let status = answer.response.status();
        match &answer.end {
            End::Done | End::Own if status.is_success() => None,
            End::Done | End::Own => Some(Self::refused_by_upstream(status, answer, url)),
            End::GaveUp { reason, failure: None, status, why } => {
                let message = format!("{reason} from {url}; {why}");
                Some(Self::Transient { message, status: *status })
            }
            // A certificate, for one, is not mended by waiting.
            End::GaveUp { reason, failure: Some(failure), .. } if failure.is_lasting() => {
                Some(Self::permanent(format!("{reason}, for {url}")))
            }
            End::GaveUp { reason, failure: Some(_), why, .. } => {
                Some(Self::Transient { message: format!("{reason}, for {url}; {why}"), status: None })
            }
            End::Refused(
                refusal @ (Refusal::Unsupported(_)
                | Refusal::HeadTooLarge { .. }
                | Refusal::Denied(_)
                | Refusal::Barred(_)
                | Refusal::NoRoute
                | Refusal::Loop { .. }),
            ) => Some(Self::permanent(format!("{}, for {url}", refusal.detail()))),
            End::Refused(refusal) => {
                Some(Self::Transient { message: format!("{}, for {url}", refusal.detail()), status: None })
            }
        }
    }

    /// An answer that is neither a success nor a failure that is retried.
    fn refused_by_upstream(status: StatusCode, answer: &Answer, url: &str) -> Self {
        let location = answer.response.headers().get(http::header::LOCATION).filter(|_| status.is_redirection());
        let whither = match location.and_then(|l| l.to_str().ok()) {
            Some(location) => {
                let location = sopan_core::headers::redact_url(location);
                format!("; redirects are not followed, use {location} instead if that is right")
            }
            None => String::new(),
        };
        let message = format!("HTTP {} from {url}{whither}", status.as_u16());
        if status.is_server_error() {
            Self::Transient { message, status: Some(status) }
        } else {
            Self::Permanent { message, status: Some(status) }
        }
    }
}
