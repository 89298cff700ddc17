//! The sockets of an HTTP listener: accepting, TLS, the bounds of a connection, and ending.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::telemetry::metrics::Connection;
use crate::transport::http::routes::Answer;
use crate::transport::http::service::Service;
use crate::transport::http::talk::{self, Ended};

/// How long a new connection may take to its first request, and before that to agree on TLS. Short: whoever
/// connects has something to ask.
pub(super) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may stay without a further request, or without reading the answers to those it sent.
/// More than the 60 s for which proxies keep theirs, so that it is they who close and no request is lost.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long requests under way may take when the server ends. Decisions take microseconds; only slow senders
/// of bodies are cut.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections have at least to end in when the server does, however long requests took before:
/// HTTP/2 has to say so and to hear that it was understood.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked whether requests are still under way then.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);
/// How long a connection is listened to before it is closed with the server: what was sent before we said
/// good-bye is here by then, and is answered.
pub(super) const CLOSE_PAUSE: Duration = Duration::from_millis(100);
/// The longest head of a request: nothing here needs more than a few hundred bytes of it, and every connection
/// may hold that much.
const MAX_HEAD_BYTES: u32 = 16 * 1_024;
/// How many streams one HTTP/2 connection may have open, and how many bytes it may send ahead of our reading.
const MAX_STREAMS: u32 = 64;
const STREAM_WINDOW_BYTES: u32 = 64 * 1_024;
const CONNECTION_WINDOW_BYTES: u32 = 128 * 1_024;
/// How long accepting pauses after it failed, as it does when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// One line in ten seconds says so.
const FAILURES_PER_LINE: u32 = 200;

/// What is behind a listener.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers one request, whatever it is.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Result<Answer, Infallible>> + Send;

    /// Whether some request is under way: read, but not answered.
    fn is_busy(&self) -> bool;

    /// Who answers the short way, if there is one.
    fn short_way(&self) -> Option<&Service> {
        None
    }

    /// Counts a connection, for as long as the value is there.
    fn connected(&self) -> Connection;

    /// Tells that the system has no connection to give; it is tried again and again.
    fn cannot_accept(&self, wrong: &io::Error);
}

/// Answers on `listener` until `stop` changes; then goes on for as long as requests are under way, and ends all
/// connections once none are, within a bound. At most `most` connections are open at once; more wait in the
/// system's queue until one ends.
pub(crate) async fn serve<S: Site>(
    listener: TcpListener,
    site: Arc<S>,
    tls: Option<TlsAcceptor>,
    most: u32,
    mut stop: watch::Receiver<bool>,
) {
    let (end, ended) = watch::channel(false);
    let places = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(usize::MAX)));
    let server = Server { site, tls, places, ended };
    tokio::select! {
        _ = stop.changed() => {}
        () = server.accept(&listener) => {}
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    tokio::select! {
        () = server.idle() => {}
        () = server.accept(&listener) => {}
        () = tokio::time::sleep_until(deadline) => {}
    }
    server.accept_waiting(listener);
    // An error means that there is no connection.
    let _ = end.send(true);
    // Every place is free again when every connection has ended.
    let deadline = deadline.max(Instant::now() + END_TIMEOUT);
    let _ = timeout_at(deadline, server.places.acquire_many(most)).await;
}

/// What all connections share.
struct Server<S> {
    site: Arc<S>,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
}

impl<S: Site> Server<S> {
    /// Accepts and answers connections, without end.
    async fn accept(&self, listener: &TcpListener) {
        let mut failures = 0_u32;
        loop {
            // Never closed, so there will be a place.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    failures = 0;
                    self.answer(stream, place);
                }
                // Who has gone before being accepted is nobody's failure.
                Err(wrong) if wrong.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(wrong) => {
                    if failures.is_multiple_of(FAILURES_PER_LINE) {
                        self.site.cannot_accept(&wrong);
                    }
                    failures = failures.wrapping_add(1);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes the connections that the system has accepted for us, and closes the listener: who could connect
    /// and has asked gets an answer.
    fn accept_waiting(&self, listener: TcpListener) {
        // Without tokio, which would first have to hear of them. It does not block: tokio has set that.
        let Ok(listener) = listener.into_std() else { return };
        while let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            });
            match accepted {
                Ok(stream) => self.answer(stream, place),
                Err(wrong) if wrong.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, stream: TcpStream, place: OwnedSemaphorePermit) {
        // Answers are one small write each: waiting for more to send would only delay them.
        let _: io::Result<()> = stream.set_nodelay(true);
        let (site, tls, ended) = (Arc::clone(&self.site), self.tls.clone(), self.ended.clone());
        let counted = site.connected();
        tokio::spawn(async move {
            match tls {
                None => connection(stream, &site, ended).await,
                Some(tls) => {
                    let mut ending = ended.clone();
                    let too_late = async {
                        let _ = ending.changed().await;
                        sleep(CLOSE_PAUSE).await;
                    };
                    let agreed = tokio::select! {
                        agreed = timeout(FIRST_REQUEST_TIMEOUT, tls.accept(stream)) => agreed,
                        // Without TLS nobody has asked anything.
                        () = too_late => return,
                    };
                    // Who cannot agree on TLS has been told why by an alert.
                    if let Ok(Ok(stream)) = agreed {
                        connection(stream, &site, ended).await;
                    }
                }
            }
            drop((place, counted));
        });
    }

    /// Waits until no request is under way.
    async fn idle(&self) {
        while self.site.is_busy() {
            sleep(DRAIN_PAUSE).await;
        }
    }
}

/// What a connection and its stream know of each other.
#[derive(Default)]
struct Talk {
    /// Requests so far.
    requests: AtomicU64,
    /// Requests that are not answered yet.
    under_way: AtomicU64,
    /// The peer has chosen HTTP/2.
    is_http2: AtomicBool,
    /// The server ends: nothing is awaited any more.
    ends: AtomicBool,
}

/// A stream that begins with what has been read of it before, and ends once nothing more is there to be read and
/// the server ends. hyper on its own closes an idle connection without looking whether a request has just
/// arrived.
struct Ending<T> {
    before: Vec<u8>,
    stream: T,
    talk: Arc<Talk>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Ending<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let fits = self.before.len().min(buffer.remaining());
            buffer.put_slice(&self.before[..fits]);
            self.before.drain(..fits);
            if self.before.is_empty() {
                self.before = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let ends = self.talk.ends.load(Ordering::Relaxed) && self.talk.under_way.load(Ordering::Relaxed) == 0;
        // Nothing read is the end of the stream.
        if read.is_pending() && ends { Poll::Ready(Ok(())) } else { read }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Ending<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Answers the requests of one connection until it ends, is idle for too long, or the server ends.
async fn connection<T, S>(mut stream: T, site: &Arc<S>, mut ended: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Site,
{
    let mut before = Vec::new();
    if let Some(service) = site.short_way() {
        match talk::talk(&mut stream, service, ended.clone()).await {
            Ended::Over => return,
            Ended::GoesOn { read } => before = read,
        }
    }
    let talk = Arc::new(Talk::default());
    let counted = Arc::clone(&talk);
    let answer = service_fn(move |request: Request<Incoming>| {
        counted.requests.fetch_add(1, Ordering::Relaxed);
        counted.under_way.fetch_add(1, Ordering::Relaxed);
        if request.version() == Version::HTTP_2 {
            counted.is_http2.store(true, Ordering::Relaxed);
        }
        let (site, talk) = (Arc::clone(site), Arc::clone(&counted));
        async move {
            let answer = site.answer(request).await;
            talk.under_way.fetch_sub(1, Ordering::Relaxed);
            answer
        }
    });
    let builder = builder();
    let stream = Ending { before, stream, talk: Arc::clone(&talk) };
    let serving = builder.serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(serving);
    let (mut seen, mut closing, mut ending) = (0, false, false);
    loop {
        let patience = match (ending, seen) {
            (true, _) => CLOSE_PAUSE,
            (false, 0) => FIRST_REQUEST_TIMEOUT,
            (false, _) => IDLE_TIMEOUT,
        };
        tokio::select! {
            // A connection that breaks is its peer's affair; hyper has answered what could be answered.
            _ = serving.as_mut() => return,
            // From the next turn on the stream has an end. HTTP/2 ends by itself, having said so: now, if its
            // first request came in between.
            () = sleep(patience), if ending => {
                let is_http2 = talk.is_http2.load(Ordering::Relaxed);
                talk.ends.store(!is_http2, Ordering::Relaxed);
                if is_http2 {
                    serving.as_mut().graceful_shutdown();
                }
            }
            () = sleep(patience), if !ending => {
                let now = talk.requests.load(Ordering::Relaxed);
                // Without any request there is nothing to end gently; else the answers under way get one more turn.
                if now == 0 || (now == seen && closing) {
                    return;
                }
                if now == seen {
                    closing = true;
                    serving.as_mut().graceful_shutdown();
                }
                seen = now;
            }
            _ = ended.changed(), if !ending => {
                ending = true;
                // HTTP/2 can say which requests it still answers.
                if talk.is_http2.load(Ordering::Relaxed) {
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES as usize)
        // Who sends a request and closes its half, as scripts do, still gets the answer.
        .half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES);
    builder
}

#[cfg(test)]
mod tests;
