//! TLS to upstreams: rustls with one provider, the system's roots, and certificates of one's own beside them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
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
