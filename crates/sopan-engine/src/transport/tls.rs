//! TLS to upstreams: rustls with one provider, the system's roots and certificates of one's own beside them, and what a
//! client shows of itself where the upstream wants to know. What went wrong with it, `fault` says.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// Which certificate authorities an upstream may be vouched for by.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// A PEM file of authorities that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// What sopan shows of itself to an upstream that wants to know its clients (RFC 8446 §4.4.2). Only the names of the files:
/// what is in them is read when it is used, and shown nowhere.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// A PEM file with the certificate, and after it those that lead to its authority.
    pub certificate: PathBuf,
    /// A PEM file with its private key.
    pub key: PathBuf,
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
    /// The client certificate cannot be used.
    #[error(
        "the client certificate file {path} cannot be used: {why}; it must hold the client's PEM certificate first"
    )]
    ClientCert {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key of the client certificate cannot be used.
    #[error("the key file {path} cannot be used: {why}; it must hold the PEM private key of the client certificate")]
    ClientKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it; nothing of what is in it.
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

impl Roots {
    /// What is in the file, if one is named, for a library that wants the text.
    pub(crate) fn pem(&self) -> Result<Option<Vec<u8>>, TlsError> {
        let of = |path: &PathBuf| read(path).map_err(|why| TlsError::CaFile { path: path.clone(), why });
        self.ca_file.as_ref().map(of).transpose()
    }

    /// TLS to a server that only the authorities of the file vouch for, or without one the system's.
    pub(crate) fn alone(&self) -> Result<ClientConfig, TlsError> {
        let mut store = RootCertStore::empty();
        match &self.ca_file {
            Some(path) => add_file(&mut store, path)?,
            None => store = self::store(self)?,
        }
        let config = ClientConfig::builder_with_provider(Arc::new(provider())).with_safe_default_protocol_versions()?;
        Ok(config.with_root_certificates(store).with_no_client_auth())
    }
}

impl ClientCertificate {
    /// Whether both files can be used, and belong together; an upstream without TLS never looks at them.
    ///
    /// # Errors
    /// Which file it is, and what is wrong with it.
    pub fn check(&self) -> Result<(), TlsError> {
        self.load(&provider()).map(drop)
    }

    fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let of_cert = |why: String| TlsError::ClientCert { path: self.certificate.clone(), why };
        let of_key = |why: String| TlsError::ClientKey { path: self.key.clone(), why };
        let content = read(&self.certificate).map_err(of_cert)?;
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(&content).collect::<Result<_, _>>().map_err(|e| of_cert(e.to_string()))?;
        if chain.is_empty() {
            return Err(of_cert("it holds no certificate".to_owned()));
        }
        let key = read(&self.key).map_err(of_key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|e| of_key(no_key(&e, &key)))?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(pair) => Ok(pair),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(of_key(format!("it is not the key of the certificate in {}", self.certificate.display())))
            }
            // The certificate is read only to compare the keys.
            Err(rustls::Error::InvalidCertificate(_)) => Err(of_cert("its certificate cannot be read".to_owned())),
            Err(_) => Err(of_key("its key is of a kind that is not known here".to_owned())),
        }
    }
}

/// The largest file; those with the authorities of whole systems have a quarter of a megabyte.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A whole file. Neither a pipe that nobody writes into nor a device without an end keeps anybody waiting.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err("it is a pipe or a device".to_owned());
    }
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut content));
    match read {
        Ok(_) if content.len() as u64 > BYTES_MAX => Err(format!("it is longer than {BYTES_MAX} bytes")),
        Ok(_) => Ok(content),
        Err(error) => Err(error.to_string()),
    }
}

/// Why there is no key in a file.
fn no_key(error: &pem::Error, content: &[u8]) -> String {
    match error {
        pem::Error::NoItemsFound if content.windows(15).any(|part| part == b"BEGIN ENCRYPTED") => {
            "its key is encrypted; take off the passphrase, and protect the file itself".to_owned()
        }
        pem::Error::NoItemsFound => "it holds no private key".to_owned(),
        // Some of the others show the line in which they were found.
        _ => "it is no PEM file".to_owned(),
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

/// What TLS to this host takes, but for the protocols that are offered on it.
pub(super) fn config(
    host: &str,
    roots: &Roots,
    client: Option<&ClientCertificate>,
) -> Result<(ClientConfig, ServerName<'static>), TlsError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { host: host.to_owned() })?;
    let provider = Arc::new(provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store(roots)?);
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let shown = SingleCertAndKey::from(client.load(&provider)?);
            let mut config = config.with_client_cert_resolver(Arc::new(shown));
            // A resumed session takes over who the client was, and nobody looks at its certificate again.
            config.resumption = Resumption::disabled();
            config
        }
    };
    Ok((config, name))
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
    let content = read(path).map_err(fail)?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&content) {
        store.add(certificate.map_err(|e| fail(e.to_string()))?).map_err(|e| fail(e.to_string()))?;
        count += 1;
    }
    if count == 0 { Err(fail("it holds no certificate".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_or_a_device_keeps_nobody_waiting() {
        let endless = PathBuf::from("/dev/zero");
        let roots = Roots { ca_file: Some(endless.clone()) };
        let client = ClientCertificate { certificate: endless.clone(), key: endless.clone() };
        for error in [roots.check().unwrap_err(), client.check().unwrap_err()] {
            assert!(error.to_string().contains("it is a pipe or a device"), "{error}");
        }
        assert_eq!(read(Path::new("/dev/null")), Err("it is a pipe or a device".to_owned()));
    }
}
