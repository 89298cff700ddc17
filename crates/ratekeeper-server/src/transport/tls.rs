//! TLS for listeners: rustls, with the keys that the configuration names.

use std::path::Path;
use std::sync::Arc;

use ratekeeper_policy::Tls;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// What a listener speaks TLS with: HTTP/2 for those who can, and a certificate from clients if a CA for them is
/// named.
///
/// # Errors
/// If a file cannot be read or does not hold what it should; the message names it.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, String> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&tls.cert)?;
    let key = PrivateKeyDer::from_pem_file(Path::new(&tls.key))
        .map_err(|wrong| format!("error: cannot read a private key from {}: {wrong}", tls.key))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|wrong| format!("error: cannot set up TLS: {wrong}"))?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots
                    .add(certificate)
                    .map_err(|wrong| format!("error: {file} holds no certificate of a CA: {wrong}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|wrong| format!("error: cannot verify clients by {file}: {wrong}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|wrong| format!("error: {} and {} do not belong together: {wrong}", tls.cert, tls.key))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let cannot =
        |wrong: &dyn std::fmt::Display| format!("error: cannot read certificates from {file}: {wrong}");
    let all = CertificateDer::pem_file_iter(Path::new(file)).map_err(|wrong| cannot(&wrong))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|wrong| cannot(&wrong))?;
    if all.is_empty() { Err(cannot(&"there is none")) } else { Ok(all) }
}
