//! Listeners that speak TLS, with certificates that are made for one test.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::http2;
use crate::support::{Folder, Server, Stopwatch, post, request, run, told};

const ASK: &str = r#"{"policy":"p","key":"k"}"#;

/// A CA, and what it has signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// A certificate and its key, in PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self, name: &str) -> Identity {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// A server for `localhost`, and the authority of its certificate.
fn serve(folder: &Folder, clients: Option<&Authority>) -> (Server, Authority) {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    folder.file("cert.pem", &identity.certificate);
    folder.file("key.pem", &identity.key);
    if let Some(clients) = clients {
        folder.file("clients.pem", &clients.certificate);
    }
    let client_ca = clients.map(|_| ", client_ca: clients.pem").unwrap_or_default();
    let file = file(&format!("{{ cert: cert.pem, key: key.pem{client_ca} }}"));
    folder.file("ratekeeper.yaml", file);
    (Server::start(&["serve"], Some(folder.path())), authority)
}

fn file(tls: &str) -> String {
    format!(
        "version: 1\nlisten: {{ http: {{ address: 127.0.0.1:0, tls: {tls} }}, admin: 127.0.0.1:0 }}\npolicies:\n  \
         - {{ name: p, key: [ip], limits: [{{ name: l, algorithm: fixed-window, limit: 1000000/day }}] }}\n"
    )
}

/// A client that trusts an authority, speaks these protocols, and may say who it is.
async fn connect(
    server: &Server,
    trusted: &Authority,
    protocols: &[&str],
    identity: Option<&Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted.certificate.as_bytes()).expect("PEM"))
        .expect("a certificate of a CA");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM")],
                PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM"),
            )
            .expect("they belong together"),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(&server.address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One question and the end of the connection. A missing end of TLS would be an error of reading.
async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(&request("POST", "/v1/check", "connection: close\r\n", ASK.as_bytes())).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[test]
fn both_versions_of_http_are_spoken_and_the_client_chooses() {
    let folder = Folder::new();
    let (server, authority) = serve(&folder, None);
    assert!(server.banner.contains(&format!("https://{}/v1/check", server.address)), "{}", server.banner);
    http2::runtime().block_on(async {
        let mut one = connect(&server, &authority, &["http/1.1"], None).await.expect("TLS");
        assert_eq!(one.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert!(ask(&mut one).await.expect("it ends well").starts_with("HTTP/1.1 200 OK"));
        // Without a word about it, it is HTTP/1.1.
        let mut none = connect(&server, &authority, &[], None).await.expect("TLS");
        assert!(ask(&mut none).await.expect("it ends well").starts_with("HTTP/1.1 200 OK"));
        let two = connect(&server, &authority, &["h2", "http/1.1"], None).await.expect("TLS");
        assert_eq!(two.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (requests, connection) = h2::client::handshake(two).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut requests = requests.ready().await.expect("it is open");
        let livez = http2::request("GET", "localhost", "/livez", &[]);
        let (answer, _) = requests.send_request(livez, true).expect("a stream");
        assert_eq!(http2::read(answer).await.expect("an answer").status, 200);
        // Many at once, to a buffer that TLS fills on its own.
        let mut many = connect(&server, &authority, &["http/1.1"], None).await.expect("TLS");
        let (mut reader, mut writer) = tokio::io::split(&mut many);
        let bytes = post(ASK).repeat(3_000);
        let sending = async {
            writer.write_all(&bytes).await.expect("it is read");
            writer.shutdown().await.expect("an end");
        };
        let mut answers = Vec::new();
        let ((), read) = tokio::join!(sending, reader.read_to_end(&mut answers));
        read.expect("it ends well");
        assert_eq!(answers.windows(12).filter(|part| part == b"HTTP/1.1 200").count(), 3_000);
    });
}

#[test]
fn with_a_ca_for_clients_strangers_are_refused() {
    let (folder, clients) = (Folder::new(), Authority::new());
    let (server, authority) = serve(&folder, Some(&clients));
    let (known, stranger) = (clients.sign("client"), Authority::new().sign("client"));
    http2::runtime().block_on(async {
        for (identity, may) in [(Some(&known), true), (Some(&stranger), false), (None, false)] {
            // TLS 1.3 tells the client after the handshake, with the first thing that it reads.
            let answer = match connect(&server, &authority, &["http/1.1"], identity).await {
                Ok(mut stream) => ask(&mut stream).await,
                Err(wrong) => Err(wrong),
            };
            assert_eq!(answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")), may);
        }
    });
}

#[test]
fn plain_http_at_a_tls_listener_is_closed() {
    let folder = Folder::new();
    let (server, authority) = serve(&folder, None);
    for bytes in [post(ASK), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), vec![0x16, 3, 1, 0xff, 0xff, 1]] {
        let mut connection = server.connect();
        connection.send(&bytes);
        connection.finish();
        let answered = connection.rest();
        assert!(!answered.starts_with(b"HTTP"), "{answered:?}");
    }
    http2::runtime().block_on(async {
        let mut one = connect(&server, &authority, &["http/1.1"], None).await.expect("TLS");
        assert!(ask(&mut one).await.expect("it ends well").starts_with("HTTP/1.1 200 OK"));
    });
}

#[test]
fn who_never_agrees_on_tls_is_let_go_and_keeps_nobody_waiting() {
    let folder = Folder::new();
    let (mut server, authority) = serve(&folder, None);
    let silent: Vec<_> =
        (0..200).map(|_| std::net::TcpStream::connect(&server.address).expect("a place")).collect();
    http2::runtime().block_on(async {
        let mut one = connect(&server, &authority, &["http/1.1"], None).await.expect("TLS");
        assert!(ask(&mut one).await.expect("it ends well").starts_with("HTTP/1.1 200 OK"));
    });
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    // The server waits ten seconds for TLS, and so does this test.
    assert_eq!(first.read(&mut [0; 1]).ok(), Some(0));
    // Another one, when the server ends: it has asked nothing, and is not waited for.
    let _late = server.connect();
    let asked = Stopwatch::start();
    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

#[test]
fn bad_certificates_and_keys_are_named_and_nothing_starts() {
    let folder = Folder::new();
    let (authority, other) = (Authority::new(), Authority::new());
    let (identity, foreign) = (authority.sign("localhost"), other.sign("localhost"));
    let path = |name: &str, content: &str| folder.file(name, content).to_str().expect("UTF-8").to_owned();
    let cert = path("cert.pem", &identity.certificate);
    let key = path("key.pem", &identity.key);
    let foreign_key = path("foreign.pem", &foreign.key);
    let empty = path("empty.pem", "");
    let nonsense = path("nonsense.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let broken = path("broken.pem", "-----BEGIN CERTIFICATE-----\n?\n");
    let missing = folder.path().join("missing.pem").to_str().expect("UTF-8").to_owned();
    for (tls, named) in [
        (format!("{{ cert: {missing}, key: {key} }}"), &missing),
        (format!("{{ cert: {cert}, key: {missing} }}"), &missing),
        (format!("{{ cert: {empty}, key: {key} }}"), &empty),
        (format!("{{ cert: {key}, key: {key} }}"), &key),
        (format!("{{ cert: {cert}, key: {cert} }}"), &cert),
        (format!("{{ cert: {cert}, key: {empty} }}"), &empty),
        (format!("{{ cert: {broken}, key: {key} }}"), &broken),
        (format!("{{ cert: {nonsense}, key: {key} }}"), &nonsense),
        (format!("{{ cert: {cert}, key: {foreign_key} }}"), &foreign_key),
        (format!("{{ cert: {cert}, key: {key}, client_ca: {missing} }}"), &missing),
        (format!("{{ cert: {cert}, key: {key}, client_ca: {empty} }}"), &empty),
        (format!("{{ cert: {cert}, key: {key}, client_ca: {nonsense} }}"), &nonsense),
    ] {
        let config = folder.file("ratekeeper.yaml", file(&tls));
        let config = config.to_str().expect("UTF-8");
        let (stdout, stderr, code) = told(&run(&["serve", "--config", config, "--http", "127.0.0.1:0"], ""));
        assert_eq!((stdout.as_str(), code), ("", 2), "{tls}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(Path::new(named).to_str().expect("UTF-8")),
            "{tls}: {stderr}"
        );
        assert!(!stderr.contains("PRIVATE KEY-----\n") && stderr.lines().count() <= 4, "{stderr}");
    }
}
