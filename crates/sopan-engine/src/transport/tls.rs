//! TLS to upstreams: rustls with one provider, the system's roots, and certificates of one's own beside them; and what
//! went wrong with it, in words.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{CertificateError, ClientConfig, OtherError, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

/// Which certificate authorities an upstream may be vouched for by.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// A PEM file of authorities that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities cannot be used.
    #[error("the certificate file {path} cannot be used: {why}; it must hold one or more PEM certificates")]
    CaFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody could vouch for any upstream.
    #[error("the system has no certificate authorities ({why}); install the package ca-certificates or name a file")]
    NoRoots {
        /// What the system answered.
        why: String,
    },
    /// The host cannot be the name of a certificate.
    #[error("`{host}` cannot be the name in a certificate; an https upstream needs a host name or an address")]
    Name {
        /// The host.
        host: String,
    },
    /// The library refused the settings.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

impl Roots {
    /// Whether the file of authorities can be used, if one is named; an upstream without TLS never looks at it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), TlsError> {
        self.ca_file.as_ref().map_or(Ok(()), |path| add_file(&mut RootCertStore::empty(), path))
    }
}

pub(super) fn connector(host: &str, roots: &Roots) -> Result<(TlsConnector, ServerName<'static>), TlsError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { host: host.to_owned() })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store(roots)?)
        .with_no_client_auth();
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Why no connection could be made, as people read it. rustls shows some of its errors as Rust writes them.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("invalid peer certificate: {}", explain_certificate(why))
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    // rustls has no name of its own for it, and shows webpki's.
    let is_authority = |error: &OtherError| error.0.to_string() == "CaUsedAsEndEntity";
    match error {
        CertificateError::UnknownIssuer => {
            "it is signed by nobody that is trusted; add its authority to those that are (ca_file)".to_owned()
        }
        CertificateError::Other(other) if is_authority(other) => {
            "it is a certificate of an authority (CA:TRUE), which a server must not show".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed in a way that is not known here".to_owned()
        }
        CertificateError::Other(other) => in_words(&other.0.to_string()),
        other => in_words(&other.to_string()),
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

fn store(roots: &Roots) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(system.certs);
    if let Some(path) = &roots.ca_file {
        add_file(&mut store, path)?;
    }
    if store.is_empty() {
        let why = system.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots { why });
    }
    Ok(store)
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let fail = |why: String| TlsError::CaFile { path: path.to_owned(), why };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| fail(e.to_string()))?;
    let mut count = 0;
    for certificate in certificates {
        store.add(certificate.map_err(|e| fail(e.to_string()))?).map_err(|e| fail(e.to_string()))?;
        count += 1;
    }
    if count == 0 { Err(fail("it holds no certificate".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
    use rustls::client::WebPkiServerVerifier;
    use rustls_pki_types::UnixTime;

    use super::*;

    /// What is said of a certificate for `localhost` that signs itself, by who asks for this name.
    fn said_of(change: impl FnOnce(&mut CertificateParams), is_trusted: bool, name: &'static str) -> String {
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
        explain(&io::Error::other(error.unwrap_err()))
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_words() {
        let is_authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let has_expired = |params: &mut CertificateParams| {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        };
        for (said, expected) in [
            (said_of(|_| {}, false, "localhost"), "it is signed by nobody that is trusted; add its authority"),
            (said_of(is_authority, true, "localhost"), "it is a certificate of an authority (CA:TRUE), which a server"),
            (said_of(|_| {}, true, "other"), "certificate not valid for name \"other\"; certificate is only valid for"),
            (said_of(has_expired, true, "localhost"), "certificate expired: verification time"),
        ] {
            assert!(said.starts_with(&format!("invalid peer certificate: {expected}")), "{said}");
        }
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
        for error in [io::Error::other("as it is"), io::Error::other(rustls::Error::General("as it is".to_owned()))] {
            assert!(explain(&error).ends_with("as it is"));
        }
    }
}
