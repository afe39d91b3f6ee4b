//! How an attempt can fail without an answer, in the words that a client may see and in those of RFC 9209.

use std::fmt;

use http::StatusCode;

/// How an attempt failed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The host's name has no address.
    Unresolvable,
    /// Nobody listens there.
    Refused,
    /// No way there, or another fault of the network.
    Unreachable,
    /// Connecting took longer than `connect_timeout`.
    ConnectTimeout,
    /// The certificate was not accepted.
    Certificate(BadCertificate),
    /// The upstream ended TLS with this alert (RFC 8446 §6).
    TlsAlert(u8),
    /// It closed the connection in the TLS handshake.
    TlsClosed,
    /// No version or cipher of TLS is known on both sides.
    TlsIncompatible,
    /// What it answered to a TLS handshake is not TLS.
    NotTls,
    /// What it answered to plain HTTP is TLS.
    SpeaksTls,
    /// The TLS handshake failed otherwise.
    Tls,
    /// The connection broke before the answer's head was complete.
    Terminated,
    /// What came was not HTTP.
    Garbage,
    /// The answer's head was too large.
    HeadTooLarge,
    /// No answer's head came within `attempt_timeout`.
    ResponseTimeout,
}

/// Why a certificate was not accepted, without the names that are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadCertificate {
    /// Nobody who is trusted has signed it.
    UnknownIssuer,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It is for another host.
    OtherName,
    /// It is not for servers.
    OtherUse,
    /// It is an authority's own.
    Authority,
    /// Anything else; the log says more.
    Otherwise,
}

impl Failure {
    /// The registered error type of RFC 9209 §2.3.
    pub fn error_type(self) -> &'static str {
        match self {
            Self::Unresolvable => "dns_error",
            Self::Refused => "connection_refused",
            Self::Unreachable => "destination_ip_unroutable",
            Self::ConnectTimeout => "connection_timeout",
            Self::Certificate(_) => "tls_certificate_error",
            Self::TlsAlert(_) => "tls_alert_received",
            Self::TlsIncompatible | Self::NotTls | Self::Tls => "tls_protocol_error",
            Self::Terminated | Self::TlsClosed => "connection_terminated",
            Self::Garbage | Self::SpeaksTls => "http_protocol_error",
            Self::HeadTooLarge => "http_response_header_section_size",
            Self::ResponseTimeout => "http_response_timeout",
        }
    }

    /// What else `Proxy-Status` says of it, with the error type in front.
    pub(super) fn proxy_status(self) -> String {
        let error = self.error_type();
        match self {
            Self::TlsAlert(id) => match alert_name(id) {
                Some(name) => format!("{error}; alert-id={id}; alert-message={name}"),
                None => format!("{error}; alert-id={id}"),
            },
            _ => error.to_owned(),
        }
    }

    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::ConnectTimeout | Self::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Whether waiting does not mend it: somebody must change a setting or a certificate first.
    pub fn is_lasting(self) -> bool {
        match self {
            Self::Certificate(_) | Self::TlsIncompatible | Self::NotTls | Self::SpeaksTls => true,
            Self::TlsAlert(id) => id == HANDSHAKE_FAILURE || meaning(id).is_some(),
            _ => false,
        }
    }

    /// Whether the upstream has turned the connection away, so that it cannot have looked at a request on it. With TLS 1.3 a
    /// client that is not wanted learns of it only after it has begun to speak.
    pub(crate) fn turns_away(self) -> bool {
        matches!(self, Self::TlsAlert(_)) && self.is_lasting()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unresolvable => "the name of the upstream has no address",
            Self::Refused => "the upstream refused the connection",
            Self::Unreachable => "the upstream cannot be reached",
            Self::ConnectTimeout => "no connection to the upstream came about in time",
            Self::Certificate(why) => return write!(f, "the certificate of the upstream was not accepted: {why}"),
            Self::TlsAlert(id) => return write!(f, "the upstream ended TLS with {}", Alert(*id)),
            Self::TlsClosed => "the upstream closed the connection in the TLS handshake",
            Self::TlsIncompatible => "the upstream knows no version or cipher of TLS that sopan knows",
            Self::NotTls => "the upstream does not speak TLS on this port; is its URL to begin with http://?",
            Self::SpeaksTls => "the upstream speaks TLS on this port; is its URL to begin with https://?",
            Self::Tls => "the TLS handshake with the upstream failed",
            Self::Terminated => "the upstream closed the connection before it answered",
            Self::Garbage => "the upstream did not answer in HTTP",
            Self::HeadTooLarge => "the head of the upstream's answer is too large",
            Self::ResponseTimeout => "the upstream did not answer in time",
        })
    }
}

impl fmt::Display for BadCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownIssuer => "it is signed by nobody that is trusted (ca_file)",
            Self::Expired => "it has expired",
            Self::NotYetValid => "it is not valid yet",
            Self::OtherName => "it is for another name",
            Self::OtherUse => "it is not for servers",
            Self::Authority => "it is a certificate of an authority, which a server must not show",
            Self::Otherwise => "the log says why",
        })
    }
}

/// An alert in words: its name, and what it asks for where that can be said.
pub(crate) struct Alert(pub(crate) u8);

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(id) = *self;
        match alert_name(id) {
            Some(name) => write!(f, "the alert `{}`", name.replace('_', " "))?,
            None => write!(f, "the alert {id}")?,
        }
        match meaning(id) {
            Some(meaning) => write!(f, ": {meaning}"),
            // An older TLS has no alert of its own for the latter.
            None if id == HANDSHAKE_FAILURE => f.write_str(
                ": it knows no cipher that sopan knows, or wants a client certificate (client_cert, client_key)",
            ),
            None => Ok(()),
        }
    }
}

const HANDSHAKE_FAILURE: u8 = 40;

/// The name of an alert (RFC 8446 §6, RFC 5246 §7.2).
fn alert_name(id: u8) -> Option<&'static str> {
    Some(match id {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        HANDSHAKE_FAILURE => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return None,
    })
}

/// What an alert means for whoever runs the proxy, where it is one that comes again until something is changed.
fn meaning(id: u8) -> Option<&'static str> {
    Some(match id {
        42..=46 | 48 => "it does not accept the client certificate (client_cert)",
        49 => "it lets this client not in (client_cert)",
        70 => "it speaks neither TLS 1.2 nor TLS 1.3",
        71 => "it wants other ciphers than sopan knows",
        112 => "it does not know the host that it was asked for",
        116 => "it wants a client certificate; give one (client_cert, client_key)",
        120 => "it speaks no version of HTTP that sopan speaks",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_told_by_name_and_by_what_it_asks_for() {
        for (id, status, words, lasting) in [
            (
                116,
                "tls_alert_received; alert-id=116; alert-message=certificate_required",
                "the alert `certificate required`: it wants a client certificate; give one (client_cert, client_key)",
                true,
            ),
            (
                48,
                "tls_alert_received; alert-id=48; alert-message=unknown_ca",
                "the alert `unknown ca`: it does not accept the client certificate (client_cert)",
                true,
            ),
            (
                40,
                "tls_alert_received; alert-id=40; alert-message=handshake_failure",
                "the alert `handshake failure`: it knows no cipher that sopan knows, or wants a client certificate \
                 (client_cert, client_key)",
                true,
            ),
            (80, "tls_alert_received; alert-id=80; alert-message=internal_error", "the alert `internal error`", false),
            (200, "tls_alert_received; alert-id=200", "the alert 200", false),
        ] {
            let failure = Failure::TlsAlert(id);
            assert_eq!((failure.proxy_status(), failure.is_lasting()), (status.to_owned(), lasting));
            assert_eq!(failure.to_string(), format!("the upstream ended TLS with {words}"));
        }
    }
}
