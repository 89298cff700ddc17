//! How a connection comes about: the host, TLS, the password, the scripts; with sentinels, first of all whom.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ratekeeper_core::Trouble;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::command::Head;
use super::verdict::{presentable, trouble_of};
use super::{CONNECT_TIMEOUT, Endpoint, ScriptKind, Scripts, Topology};

/// What moves the bytes of a connection; it ends when the connection does.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that is ready.
pub(super) struct Ready {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: Driver,
    pub(super) host: String,
    pub(super) port: u16,
    /// Which of the host's addresses it is.
    pub(super) address: SocketAddr,
    /// `redis 7.0.15`, if it says.
    pub(super) server: Option<String>,
}

/// Why there is none.
pub(super) struct Refusal {
    pub(super) trouble: Trouble,
    pub(super) text: String,
}

impl Refusal {
    fn connect(text: impl Into<String>) -> Self {
        Self { trouble: Trouble::Connect, text: text.into() }
    }
}

struct Script {
    text: String,
    digest: String,
}

impl Script {
    fn new(text: String) -> Self {
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }
}

/// Makes connections to one endpoint.
pub(super) struct Connector {
    pub(super) endpoint: Endpoint,
    tls: Option<TlsConnector>,
    decide: Script,
    amend: Script,
    /// The sentinel that knew the master last: it is asked first.
    sentinel: AtomicUsize,
    /// How long each step may take.
    step: Duration,
}

/// After so long without a word the system asks whether the other side is still there: what lies between forgets no
/// connection that is idle, since those who are alone and those who are many use two.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Commands that the library takes before its driver has written any: all rounds that may be on their way fit.
const BUFFER: usize = 256;

impl Connector {
    pub(super) fn new(endpoint: Endpoint, scripts: Scripts, step: Duration) -> io::Result<Self> {
        let tls = if endpoint.is_tls { Some(tls(endpoint.root_pem.as_deref())?) } else { None };
        Ok(Self {
            endpoint,
            tls,
            decide: Script::new(scripts.decide),
            amend: Script::new(scripts.amend),
            sentinel: AtomicUsize::new(0),
            step: step.max(CONNECT_TIMEOUT),
        })
    }

    /// How a script is called: by its text, or by the digest of that.
    pub(super) fn head(&self, kind: ScriptKind, is_eval: bool) -> Head<'_> {
        let script = match kind {
            ScriptKind::Decide => &self.decide,
            ScriptKind::Amend => &self.amend,
        };
        if is_eval { Head::Text(&script.text) } else { Head::Digest(&script.digest) }
    }

    /// One attempt: to the server, the master that the sentinels name, or a node of the cluster.
    pub(super) async fn attempt(&self, host: &str, port: u16) -> Result<Ready, Refusal> {
        match &self.endpoint.topology {
            Topology::Cluster => self.server(host, port, false).await,
            Topology::Sentinel { master } => self.master(master).await,
            Topology::Standalone => {
                let mut last = Refusal::connect("no host");
                for (host, port) in &self.endpoint.hosts {
                    match self.server(host, *port, false).await {
                        Ok(ready) => return Ok(ready),
                        Err(refusal) => last = refusal,
                    }
                }
                Err(last)
            }
        }
    }

    /// One more connection to the server that an attempt has found.
    pub(super) async fn beside(&self, host: &str, address: SocketAddr) -> Result<Ready, Refusal> {
        let must_be_master = matches!(self.endpoint.topology, Topology::Sentinel { .. });
        let stream = self.reach(address).await?;
        self.greet(stream, host, address.port(), must_be_master).await
    }

    /// The master that one sentinel after the other names, if it says so itself.
    async fn master(&self, name: &str) -> Result<Ready, Refusal> {
        let hosts = &self.endpoint.hosts;
        let first = self.sentinel.load(Relaxed);
        let mut last = Refusal::connect("no sentinel");
        for turn in 0..hosts.len() {
            let at = (first + turn) % hosts.len();
            let (sentinel, port) = &hosts[at];
            let found = match self.ask_sentinel(sentinel, *port, name).await {
                Ok((host, port)) => self.server(&host, port, true).await,
                Err(refusal) => Err(refusal),
            };
            match found {
                Ok(ready) => {
                    self.sentinel.store(at, Relaxed);
                    return Ok(ready);
                }
                Err(refusal) => last = refusal,
            }
        }
        Err(last)
    }

    /// Sentinels seldom have a password: it is told only to those that ask for it.
    async fn ask_sentinel(&self, host: &str, port: u16, name: &str) -> Result<(String, u16), Refusal> {
        let stream = self.reach((host, port)).await?;
        let (mut connection, mut driver) = self.open(stream, host).await?;
        let mut question = Pipeline::new();
        question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(name);
        let mut values = self.ask(&mut connection, &mut driver, &question, 1).await?;
        if let Some(Value::ServerError(error)) = values.first()
            && trouble_of(&words(error)) == Trouble::Auth
            && let Some(auth) = self.auth()
        {
            question = Pipeline::new();
            question.add_command(auth).cmd("SENTINEL").arg("get-master-addr-by-name").arg(name);
            values = self.ask(&mut connection, &mut driver, &question, 2).await?;
        }
        match values.pop() {
            Some(Value::Array(address)) => match &address[..] {
                [Value::BulkString(host), Value::BulkString(port)] => {
                    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                    let port = port.ok_or_else(|| Refusal::connect("the sentinel names no port"))?;
                    Ok((String::from_utf8_lossy(host).into_owned(), port))
                }
                _ => Err(Refusal::connect("the sentinel's answer is not an address")),
            },
            Some(Value::Nil) => Err(Refusal::connect("the sentinel does not know that master")),
            Some(Value::ServerError(error)) => Err(refusal_of(&words(&error))),
            _ => Err(Refusal::connect("the sentinel's answer is not an address")),
        }
    }

    /// A connection to a server that is let in and has the scripts.
    async fn server(&self, host: &str, port: u16, must_be_master: bool) -> Result<Ready, Refusal> {
        let stream = self.reach((host, port)).await?;
        self.greet(stream, host, port, must_be_master).await
    }

    async fn greet(
        &self,
        stream: TcpStream,
        host: &str,
        port: u16,
        must_be_master: bool,
    ) -> Result<Ready, Refusal> {
        let address = stream.peer_addr().map_err(|error| Refusal::connect(error.to_string()))?;
        let (mut connection, mut driver) = self.open(stream, host).await?;
        let mut greeting = Pipeline::new();
        let mut needed = 0;
        if let Some(auth) = self.auth() {
            greeting.add_command(auth);
            needed += 1;
        }
        if self.endpoint.database != 0 {
            greeting.cmd("SELECT").arg(self.endpoint.database);
            needed += 1;
        }
        let mut count = needed + 2;
        greeting.cmd("CLIENT").arg("SETNAME").arg("ratekeeper");
        greeting.cmd("INFO").arg("server");
        if must_be_master {
            greeting.cmd("ROLE");
            count += 1;
        }
        let values = self.ask(&mut connection, &mut driver, &greeting, count).await?;
        // The others may be forbidden: scripts are sent with their text, then, and the version stays unknown. But one
        // that wants a password first says so to all of them.
        for (number, value) in values.iter().enumerate() {
            if let Value::ServerError(error) = value
                && (number < needed || error.code() == "NOAUTH")
            {
                let refusal = refusal_of(&words(error));
                let is_vague = refusal.trouble == Trouble::Other;
                return Err(Refusal {
                    trouble: if is_vague { Trouble::Auth } else { refusal.trouble },
                    ..refusal
                });
            }
        }
        if must_be_master && values.last().is_some_and(is_replica) {
            return Err(Refusal {
                trouble: Trouble::Readonly,
                text: "the sentinel's master is a replica".into(),
            });
        }
        let server = values.get(needed + 1).and_then(version);
        // Only now: a server ends connections that send so much before they are let in.
        let mut scripts = Pipeline::new();
        scripts.cmd("SCRIPT").arg("LOAD").arg(&self.decide.text);
        scripts.cmd("SCRIPT").arg("LOAD").arg(&self.amend.text);
        self.ask(&mut connection, &mut driver, &scripts, 2).await?;
        Ok(Ready { connection, driver, host: host.to_owned(), port, address, server })
    }

    fn auth(&self) -> Option<Cmd> {
        let password = self.endpoint.password.as_ref()?;
        let mut auth = redis::cmd("AUTH");
        if let Some(username) = &self.endpoint.username {
            auth.arg(username);
        }
        auth.arg(password);
        Some(auth)
    }

    async fn reach(&self, to: impl ToSocketAddrs) -> Result<TcpStream, Refusal> {
        let stream = self.within(TcpStream::connect(to), "connecting").await?;
        let alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
        let set = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&alive));
        set.map_err(|error| Refusal::connect(error.to_string()))?;
        Ok(stream)
    }

    async fn open(&self, stream: TcpStream, host: &str) -> Result<(MultiplexedConnection, Driver), Refusal> {
        match &self.tls {
            None => self.speak(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| Refusal::connect("the host is no name that a certificate can have"))?;
                let stream = self.within(tls.connect(name, stream), "the TLS handshake").await?;
                self.speak(stream).await
            }
        }
    }

    async fn speak<C>(&self, stream: C) -> Result<(MultiplexedConnection, Driver), Refusal>
    where
        C: Unpin + tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
    {
        // Without a password, a database, a name, the library says nothing of its own: the greeting does. Time is
        // kept by the caller, once for all that is under way.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(BUFFER);
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = made.map_err(|error| refusal_of(&telling(&error)))?;
        Ok((connection, Box::pin(driver)))
    }

    async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        driver: &mut Driver,
        question: &Pipeline,
        count: usize,
    ) -> Result<Vec<Value>, Refusal> {
        let answer = async {
            tokio::select! {
                values = connection.send_packed_commands(question, 0, count) => values,
                () = driver => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        };
        let values = self.within(answer, "the greeting").await?;
        if values.len() == count { Ok(values) } else { Err(Refusal::connect("not all was answered")) }
    }

    async fn within<T, E: std::fmt::Display>(
        &self,
        what: impl Future<Output = Result<T, E>>,
        name: &str,
    ) -> Result<T, Refusal> {
        let limit = if name == "connecting" { CONNECT_TIMEOUT } else { self.step };
        match timeout(limit, what).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Refusal::connect(presentable(&error.to_string(), std::iter::empty()))),
            Err(_) => Err(Refusal::connect(format!("{name} took longer than {limit:?}"))),
        }
    }
}

/// Trusts what the system trusts (`SSL_CERT_FILE` is respected), and `root_pem` besides. The provider is our own,
/// whatever the process has installed as its default.
fn tls(root_pem: Option<&[u8]>) -> io::Result<TlsConnector> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in root_pem.into_iter().flat_map(CertificateDer::pem_slice_iter) {
        let certificate = certificate.map_err(|error| invalid(format!("a root certificate: {error}")))?;
        roots.add(certificate).map_err(|error| invalid(format!("a root certificate: {error}")))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn refusal_of(text: &str) -> Refusal {
    Refusal { trouble: trouble_of(text), text: presentable(text, std::iter::empty()) }
}

/// An error reply as the server wrote it.
pub(super) fn words(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// What went wrong on this side.
pub(super) fn telling(error: &RedisError) -> String {
    presentable(&error.to_string(), std::iter::empty())
}

/// An error says nothing: ROLE may be forbidden, and whether it takes writes comes out with the first of them.
fn is_replica(role: &Value) -> bool {
    matches!(role, Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(name)) if name != b"master"))
}

/// `valkey 8.0.1` or `redis 7.0.15` out of INFO. Valkey also states the Redis it resembles.
fn version(info: &Value) -> Option<String> {
    let Value::BulkString(text) = info else { return None };
    let text = std::str::from_utf8(text).ok()?;
    let find = |field: &str| text.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
    let (name, version) = match find("valkey_version:") {
        Some(version) => ("valkey", version),
        None => ("redis", find("redis_version:")?),
    };
    Some(presentable(&format!("{name} {version}"), std::iter::empty()))
}
