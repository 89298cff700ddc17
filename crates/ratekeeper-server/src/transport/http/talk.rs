//! One connection as long as it stays on the short way: one read, one round of answers, one write.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::transport::http::connection::{CLOSE_PAUSE, FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT};
use crate::transport::http::lane::{Desk, MAX_BUFFER_BYTES, Next, Round, finish, round};
use crate::transport::http::service::Service;
use crate::transport::http::unsent::Unsent;

/// What a buffer begins with: a few requests. It grows when a read fills it.
const BUFFER_BYTES: usize = 4 * 1_024;
/// How long the rest of a request may take to come before hyper waits for it: slow senders are its affair.
const PARTIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// After the last answer: how much of what the peer still sends is read, so that it sees the answer and not a
/// reset. Whoever sends more has to stop and read.
const MAX_LINGER_BYTES: usize = 256 * 1_024;
/// How long that may take: many answers may be on their way to a slow reader.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// How it ended.
pub(super) enum Ended {
    /// The connection is to be closed.
    Over,
    /// It goes on with hyper, from these bytes on.
    GoesOn { read: Vec<u8> },
}

/// What is waited for.
enum Event {
    Read(io::Result<usize>),
    TimeOut,
    ServerEnds,
}

/// Answers what comes the short way, until something else comes or the connection ends.
pub(super) async fn talk<T: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut T,
    service: &Service,
    mut ended: watch::Receiver<bool>,
) -> Ended {
    let mut input = Input::default();
    let mut output = Vec::new();
    let mut desk = Desk::default();
    let (mut rounds, mut rounds_before, mut awaits_rest, mut ends) = (0_u64, 0, false, false);
    // One timer for the whole connection, set anew only when it goes off or a request comes in parts: the clock
    // is not read for requests that come whole.
    let mut timer = pin!(sleep(FIRST_REQUEST_TIMEOUT));
    // One future, since to ask it anew for each request would take a lock that all connections share.
    let mut ending = pin!(ended.changed());
    loop {
        let event = poll_fn(|context| {
            if let Poll::Ready(read) = input.poll_read(stream, context) {
                return Poll::Ready(Event::Read(read));
            }
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::TimeOut);
            }
            if !ends && ending.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::ServerEnds);
            }
            Poll::Pending
        });
        match event.await {
            Event::Read(Ok(0) | Err(_)) => {
                // Half a request that will never be whole: hyper knows what to say to it.
                if !input.bytes().is_empty() {
                    return input.goes_on();
                }
                say_goodbye(stream).await;
                return Ended::Over;
            }
            Event::Read(Ok(_)) => {}
            Event::ServerEnds => {
                // What was sent before is here within this time.
                ends = true;
                timer.as_mut().reset(Instant::now() + CLOSE_PAUSE);
                continue;
            }
            Event::TimeOut if ends || rounds == rounds_before => {
                if !input.bytes().is_empty() {
                    return input.goes_on();
                }
                say_goodbye(stream).await;
                return Ended::Over;
            }
            Event::TimeOut => {
                // A long pipeline is cut by its reads again and again: what is awaited now is another rest.
                (rounds_before, awaits_rest) = (rounds, !input.bytes().is_empty());
                let patience = if awaits_rest { PARTIAL_TIMEOUT } else { IDLE_TIMEOUT };
                input.shrink();
                timer.as_mut().reset(Instant::now() + patience);
                continue;
            }
        }
        let busy = service.busy();
        let Round { used, next, rest } = round(service, input.bytes(), &mut output, &mut desk);
        if let Some(rest) = rest {
            // On the heap, so that connections which never wait are no larger for it.
            Box::pin(finish(service, rest, &mut output, &mut desk)).await;
        }
        input.consume(used);
        if !output.is_empty() {
            rounds += 1;
            if write(stream, &output, service.unsent()).await.is_err() {
                return Ended::Over;
            }
            output.clear();
            // A long pipeline leaves a long buffer.
            output.shrink_to(MAX_BUFFER_BYTES);
        }
        drop(busy);
        match next {
            Next::Read if !input.bytes().is_empty() && !awaits_rest && !ends => {
                (rounds_before, awaits_rest) = (rounds, true);
                timer.as_mut().reset(Instant::now() + PARTIAL_TIMEOUT);
            }
            Next::Read => {}
            Next::HandOver => return input.goes_on(),
            Next::Close => {
                linger(stream).await;
                return Ended::Over;
            }
        }
    }
}

/// Writes all of it. Who does not read the answers is let go.
async fn write<T: AsyncWrite + Unpin>(stream: &mut T, output: &[u8], unsent: &Unsent) -> io::Result<()> {
    // Most often it fits at once, and no timer is needed.
    let (written, is_sent) = poll_fn(|context| {
        let written = match Pin::new(&mut *stream).poll_write(context, output) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(wrong)) => return Poll::Ready(Err(wrong)),
            Poll::Pending => 0,
        };
        if written < output.len() {
            return Poll::Ready(Ok((written, false)));
        }
        // TLS takes what it cannot send yet: only flushing tells.
        match Pin::new(&mut *stream).poll_flush(context) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| (written, true))),
            Poll::Pending => Poll::Ready(Ok((written, false))),
        }
    })
    .await?;
    if is_sent {
        return Ok(());
    }
    if unsent.is_full() {
        // Of all who do not read, this one is let go at once.
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let _held = unsent.hold(output.len());
    let rest = &output[written..];
    let whole = async {
        stream.write_all(rest).await?;
        stream.flush().await
    };
    match timeout(IDLE_TIMEOUT, whole).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Ends our half, if that can be said at once: with TLS its end is a message, and a missing one looks like an
/// attack.
async fn say_goodbye<T: AsyncWrite + Unpin>(stream: &mut T) {
    poll_fn(|context| {
        let _ = Pin::new(&mut *stream).poll_shutdown(context);
        Poll::Ready(())
    })
    .await;
}

/// Ends our half and reads what is still under way: a socket that is closed with bytes unread takes the answer
/// back.
async fn linger<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) {
    let _ = timeout(LINGER_TIMEOUT, async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut thrown = [0; 1_024];
        let mut most = MAX_LINGER_BYTES;
        while let Ok(read @ 1..) = stream.read(&mut thrown).await {
            most = most.saturating_sub(read);
            if most == 0 {
                // To close now would be a reset: what is sent but not received yet would be lost.
                std::future::pending::<()>().await;
            }
        }
    })
    .await;
}

/// What has been read and not answered.
#[derive(Default)]
struct Input {
    buffer: Vec<u8>,
    /// How much of the buffer has been read into.
    filled: usize,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        stream: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.filled == self.buffer.len() {
            let length = (2 * self.buffer.len()).clamp(BUFFER_BYTES, MAX_BUFFER_BYTES);
            // What does not fit into the longest buffer was handed over before.
            self.buffer.resize(length.max(self.filled + 1), 0);
        }
        let mut free = ReadBuf::new(&mut self.buffer[self.filled..]);
        match Pin::new(stream).poll_read(context, &mut free) {
            Poll::Ready(Ok(())) => {
                let read = free.filled().len();
                self.filled += read;
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(wrong)) => Poll::Ready(Err(wrong)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Forgets the beginning.
    fn consume(&mut self, used: usize) {
        if used > 0 {
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
    }

    /// Gives the memory of a long pipeline back while nothing comes.
    fn shrink(&mut self) {
        if self.filled == 0 {
            self.buffer = Vec::new();
        }
    }

    fn goes_on(mut self) -> Ended {
        self.buffer.truncate(self.filled);
        Ended::GoesOn { read: self.buffer }
    }
}
