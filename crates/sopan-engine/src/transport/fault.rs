//! What was it that went wrong with a connection: for the client, a [`Failure`], and for whoever runs the proxy, the words
//! of the log.
//!
//! The libraries below say some of it as Rust writes it, and some of it by what they do not say: a server that speaks plain
//! HTTP is to TLS a message of an unknown kind. What follows from a failure is the exchange's business.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage, OtherError};

use crate::refusal::{Alert, BadCertificate, Failure};

/// The peer ended the connection before the TLS handshake was over.
#[derive(Debug, thiserror::Error)]
#[error("closed in the TLS handshake")]
pub(super) struct ClosedInHandshake;

/// An error that several are told of.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Kept(Arc<io::Error>);

impl Kept {
    pub(super) fn error(error: Arc<io::Error>) -> io::Error {
        io::Error::new(error.kind(), Self(error))
    }
}

/// Marks what went wrong in a handshake, where it does not say so by itself.
pub(super) fn in_handshake(error: io::Error) -> io::Error {
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return error;
    }
    match error.kind() {
        kind @ (io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            io::Error::new(kind, ClosedInHandshake)
        }
        _ => error,
    }
}

/// What a fault is called for a client.
pub(crate) fn failure(error: &io::Error) -> Failure {
    if let Some(tls) = of_tls(error) {
        return tls_failure(tls);
    }
    if error.get_ref().is_some_and(|inner| inner.is::<ClosedInHandshake>()) {
        return Failure::TlsClosed;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe => Failure::Terminated,
        io::ErrorKind::TimedOut => Failure::ConnectTimeout,
        // Not TLS, so it is HTTP/2 that was agreed to and is not spoken.
        io::ErrorKind::InvalidData => Failure::Garbage,
        _ => Failure::Unreachable,
    }
}

/// The same for a connection that has carried bytes of HTTP.
pub(crate) fn failure_in_use(error: &io::Error) -> Failure {
    match of_tls(error).map(tls_failure) {
        Some(tls) => tls,
        // The system has sent the same bytes again for so long that it gave up.
        None if error.kind() == io::ErrorKind::TimedOut => Failure::ResponseTimeout,
        None if error.kind() == io::ErrorKind::InvalidData => Failure::Garbage,
        None => Failure::Terminated,
    }
}

/// A fault in words.
pub(crate) fn explain(error: &io::Error) -> String {
    let text = || {
        let text = error.to_string();
        // The library adds where to read more, which is no help to whoever reads a log.
        text.split_once(": https://").map_or(text.clone(), |(words, _)| words.to_owned())
    };
    of_tls(error).map_or_else(text, explain_tls)
}

pub(super) fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    match inner.downcast_ref::<Kept>() {
        Some(Kept(kept)) => of_tls(kept),
        None => inner.downcast_ref(),
    }
}

fn tls_failure(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(why) => Failure::Certificate(bad_certificate(why)),
        rustls::Error::NoCertificatesPresented => Failure::Certificate(BadCertificate::Otherwise),
        rustls::Error::AlertReceived(alert) => Failure::TlsAlert(u8::from(*alert)),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Failure::NotTls,
        rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol => Failure::TlsIncompatible,
        _ => Failure::Tls,
    }
}

fn bad_certificate(error: &CertificateError) -> BadCertificate {
    match error {
        CertificateError::UnknownIssuer => BadCertificate::UnknownIssuer,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => BadCertificate::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => BadCertificate::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            BadCertificate::OtherName
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => BadCertificate::OtherUse,
        CertificateError::Other(other) if is_authority(other) => BadCertificate::Authority,
        _ => BadCertificate::Otherwise,
    }
}

fn explain_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => format!("invalid peer certificate: {}", explain_certificate(why)),
        rustls::Error::AlertReceived(alert) => format!("TLS was ended with {}", Alert(u8::from(*alert))),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what answers there does not speak TLS; is the URL to begin with http://?".to_owned()
        }
        rustls::Error::PeerIncompatible(why) => {
            format!("no version or cipher of TLS is known on both sides: {}", in_words(&format!("{why:?}")))
        }
        rustls::Error::PeerMisbehaved(why) => {
            format!("the handshake broke the rules: {}", in_words(&format!("{why:?}")))
        }
        rustls::Error::InvalidMessage(why) => {
            format!("the handshake cannot be read: {}", in_words(&format!("{why:?}")))
        }
        other => other.to_string(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    let span = |from: rustls_pki_types::UnixTime, to: rustls_pki_types::UnixTime| {
        rough(Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())))
    };
    match error {
        CertificateError::UnknownIssuer => {
            "it is signed by nobody that is trusted, perhaps by itself; add its authority to those that are (ca_file)"
                .to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!("it expired {} ago", span(*not_after, *time)),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is not valid yet, but in {}; is this machine's clock right?", span(*time, *not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| plain_name(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("it is not for {}, but for {names}", expected.to_str())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage does not allow it to be shown by a server".to_owned()
        }
        CertificateError::Other(other) if is_authority(other) => {
            "it is a certificate of an authority (CA:TRUE), which a server must not show; have one made with CA:FALSE"
                .to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed in a way that is not known here".to_owned()
        }
        CertificateError::Other(other) => in_words(&other.0.to_string()),
        other => in_words(&other.to_string()),
    }
}

/// rustls has no name of its own for it, and shows webpki's.
fn is_authority(error: &OtherError) -> bool {
    error.0.to_string() == "CaUsedAsEndEntity"
}

/// A name without what rustls writes around it: `DnsName("localhost")`.
fn plain_name(shown: &str) -> &str {
    let inner = shown.split_once('(').map_or(shown, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

/// In whole days, hours or seconds.
fn rough(span: Duration) -> String {
    match span.as_secs() {
        secs if secs >= 2 * 86_400 => format!("{} days", secs / 86_400),
        secs if secs >= 2 * 3_600 => format!("{} hours", secs / 3_600),
        secs => format!("{secs} s"),
    }
}

/// A text as it is, or the words of a name in it that was written for Rust.
fn in_words(text: &str) -> String {
    if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return text.to_owned();
    }
    let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(text);
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls_pki_types::{ServerName, UnixTime};

    use super::*;

    /// What is said of a certificate for `localhost` that signs itself, by who asks for this name.
    fn said_of(
        change: impl FnOnce(&mut CertificateParams),
        is_trusted: bool,
        name: &'static str,
    ) -> (BadCertificate, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let shown = params.self_signed(&key).unwrap();
        params.distinguished_name.push(DnType::CommonName, "another authority");
        let trusted = if is_trusted { shown.clone() } else { params.self_signed(&key).unwrap() };
        let mut roots = RootCertStore::empty();
        roots.add(trusted.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name).unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_773_144_000));
        let error = rustls::client::danger::ServerCertVerifier::verify_server_cert(
            &*verifier,
            shown.der(),
            &[],
            &name,
            &[],
            now,
        );
        let error = io::Error::other(error.unwrap_err());
        let Failure::Certificate(why) = failure(&error) else { panic!("{error}") };
        (why, explain(&error))
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_words() {
        let is_authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let has_expired = |params: &mut CertificateParams| {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        };
        let not_yet = |params: &mut CertificateParams| params.not_before = date_time_ymd(2026, 3, 11);
        let for_clients = |params: &mut CertificateParams| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        };
        let unknown =
            "it is signed by nobody that is trusted, perhaps by itself; add its authority to those that are (ca_file)";
        for (said, expected, words) in [
            (said_of(|_| {}, false, "localhost"), BadCertificate::UnknownIssuer, unknown),
            (
                said_of(is_authority, true, "localhost"),
                BadCertificate::Authority,
                "it is a certificate of an authority (CA:TRUE), which a server must not show; have one made with CA:FALSE",
            ),
            (said_of(|_| {}, true, "other"), BadCertificate::OtherName, "it is not for other, but for localhost"),
            (said_of(|_| {}, true, "10.0.0.1"), BadCertificate::OtherName, "it is not for 10.0.0.1, but for localhost"),
            (said_of(has_expired, true, "localhost"), BadCertificate::Expired, "it expired 1894 days ago"),
            (
                said_of(not_yet, true, "localhost"),
                BadCertificate::NotYetValid,
                "it is not valid yet, but in 12 hours; is this machine's clock right?",
            ),
            (
                said_of(for_clients, true, "localhost"),
                BadCertificate::OtherUse,
                "its extended key usage does not allow it to be shown by a server",
            ),
        ] {
            assert_eq!(said, (expected, format!("invalid peer certificate: {words}")));
        }
    }

    #[test]
    fn what_else_ends_tls_is_told_in_words() {
        use rustls::{AlertDescription, PeerIncompatible, PeerMisbehaved};
        let tls = io::Error::other::<rustls::Error>;
        for (error, expected, words) in [
            (
                tls(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)),
                Failure::TlsAlert(116),
                "TLS was ended with the alert `certificate required`: it wants a client certificate; give one \
                 (client_cert, client_key)",
            ),
            (
                tls(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)),
                Failure::NotTls,
                "what answers there does not speak TLS; is the URL to begin with http://?",
            ),
            (
                tls(rustls::Error::InvalidMessage(InvalidMessage::MessageTooLarge)),
                Failure::Tls,
                "the handshake cannot be read: message too large",
            ),
            (
                tls(rustls::Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon)),
                Failure::TlsIncompatible,
                "no version or cipher of TLS is known on both sides: no cipher suites in common",
            ),
            (
                tls(rustls::Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol)),
                Failure::Tls,
                "the handshake broke the rules: selected unoffered application protocol",
            ),
            (in_handshake(io::ErrorKind::UnexpectedEof.into()), Failure::TlsClosed, "closed in the TLS handshake"),
            (io::Error::other("as it is"), Failure::Unreachable, "as it is"),
        ] {
            assert_eq!((failure(&error), &*explain(&error)), (expected, words));
        }
        for (kind, expected) in [
            (io::ErrorKind::TimedOut, Failure::ResponseTimeout),
            (io::ErrorKind::ConnectionReset, Failure::Terminated),
            (io::ErrorKind::Other, Failure::Terminated),
        ] {
            assert_eq!(failure_in_use(&kind.into()), expected);
        }
    }

    #[test]
    fn an_error_that_several_are_told_of_stays_what_it_is() {
        let alert = || rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA);
        let kept = Kept::error(Arc::new(io::Error::new(io::ErrorKind::InvalidData, alert())));
        assert_eq!((failure(&kept), explain(&kept)), (Failure::TlsAlert(48), explain(&io::Error::other(alert()))));
        let kept = Kept::error(Arc::new(io::ErrorKind::ConnectionReset.into()));
        assert_eq!((failure(&kept), &*explain(&kept)), (Failure::Terminated, "connection reset"));
    }

    #[test]
    fn no_error_is_shown_as_rust_writes_it() {
        let unsupported = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![1],
            supported_algorithms: vec![],
        };
        let other = |error| CertificateError::Other(OtherError(Arc::new(error)));
        for (error, expected) in [
            (CertificateError::BadSignature, "bad signature"),
            (CertificateError::UnhandledCriticalExtension, "unhandled critical extension"),
            (unsupported, "it is signed in a way that is not known here"),
            (other(webpki::Error::PathLenConstraintViolated), "path len constraint violated"),
            (other(webpki::Error::TrailingData(webpki::DerTypeId::Certificate)), "trailing data"),
        ] {
            let said = explain(&io::Error::other(rustls::Error::InvalidCertificate(error)));
            assert_eq!(said, format!("invalid peer certificate: {expected}"));
        }
    }
}
