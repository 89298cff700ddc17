//! One connection through the proxy: a reader and a writer for each direction, with a queue between them, so
//! that what is read can wait for its time while more is read.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::commands::CommandReader;
use super::{Close, Drops, Shared, State, scripts};

/// The most that is read at once.
const PIECE: usize = 16 * 1024;

/// How often a writer whose peer reads nothing looks whether the connection was cut.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

impl Direction {
    pub(super) fn index(self) -> usize {
        match self {
            Self::Requests => 0,
            Self::Replies => 1,
        }
    }
}

/// Both ends. The sockets close when the last thread lets go of it; the count goes down after that.
#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    is_closed: AtomicBool,
    /// The next bytes from the server are dropped.
    drops_reply: AtomicBool,
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.change(|state| state.live -= 1);
    }
}

/// Bytes on the way.
struct Piece {
    due: Duration,
    bytes: Vec<u8>,
    /// Instead of being written they end the connection.
    is_dropped: bool,
}

pub(super) fn set_reset(stream: &TcpStream) {
    // Without waiting for what is unsent to go out, closing sends a reset.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

pub(super) fn start(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
    }
    shared.change(|state| state.live += 1);
    let link = Arc::new(Link {
        client,
        server,
        is_closed: AtomicBool::new(false),
        drops_reply: AtomicBool::new(false),
        counted: Counted(Arc::clone(shared)),
    });
    shared.change(|state| {
        state.links.retain(|link| link.strong_count() > 0);
        state.links.push(Arc::downgrade(&link));
    });
    for direction in [Direction::Requests, Direction::Replies] {
        let (sender, receiver) = channel();
        let (reader, writer) = (Arc::clone(&link), Arc::clone(&link));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).expect("a thread can be started")
        };
        spawn("fault-proxy-read", Box::new(move || reader.read_all(direction, &sender)));
        spawn("fault-proxy-write", Box::new(move || writer.write_all(direction, &receiver)));
    }
}

impl Link {
    fn shared(&self) -> &Shared {
        &self.counted.0
    }

    fn source(&self, direction: Direction) -> &TcpStream {
        match direction {
            Direction::Requests => &self.client,
            Direction::Replies => &self.server,
        }
    }

    fn sink(&self, direction: Direction) -> &TcpStream {
        match direction {
            Direction::Requests => &self.server,
            Direction::Replies => &self.client,
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Has all four threads end, and with the last of them the sockets.
    pub(super) fn close(&self, how: Close) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        for stream in [&self.client, &self.server] {
            // Shutting down the sending side would say FIN before the reset; the receiving side is enough to
            // wake a reader.
            let sides = match how {
                Close::Fin => Shutdown::Both,
                Close::Rst => Shutdown::Read,
            };
            if how == Close::Rst {
                set_reset(stream);
            }
            let _ = stream.shutdown(sides);
        }
        self.shared().change(|_| ());
    }

    /// Waits as long as `wait_for` names a time to look again, or for the end of the connection. Says whether it
    /// goes on.
    fn wait(&self, mut wait_for: impl FnMut(&State) -> Option<Duration>) -> bool {
        let shared = self.shared();
        let mut state = shared.lock();
        while !self.is_closed() {
            let Some(pause) = wait_for(&state) else { return true };
            state = shared.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn wait_while_stalled(&self, direction: Direction) -> bool {
        // As long as it takes: each change wakes.
        self.wait(|state| state.is_stalled[direction.index()].then_some(Duration::from_secs(3_600)))
    }

    fn read_all(&self, direction: Direction, queue: &Sender<Piece>) {
        let mut buffer = vec![0; PIECE];
        let mut last_due = Duration::ZERO;
        while self.wait_while_stalled(direction) {
            let count = match self.source(direction).read(&mut buffer) {
                // The end of this direction; the writer passes it on after what is on the way.
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.close(Close::Rst),
            };
            let is_dropped =
                direction == Direction::Replies && self.drops_reply.swap(false, Ordering::SeqCst);
            let shared = self.shared();
            let delay = shared.lock().delay[direction.index()];
            // A shorter delay than before must not overtake.
            last_due = last_due.max(shared.clock.elapsed() + delay);
            let piece = Piece { due: last_due, bytes: buffer[..count].to_vec(), is_dropped };
            if queue.send(piece).is_err() {
                return;
            }
        }
    }

    fn write_all(&self, direction: Direction, queue: &Receiver<Piece>) {
        let mut commands = CommandReader::default();
        for piece in queue {
            let clock = self.shared().clock;
            let left = |_: &State| piece.due.checked_sub(clock.elapsed()).filter(|left| !left.is_zero());
            if !(self.wait(left) && self.wait_while_stalled(direction)) {
                return;
            }
            if piece.is_dropped {
                return self.close(Close::Fin);
            }
            self.count(direction, &piece.bytes, &mut commands);
            if !self.write(self.sink(direction), &piece.bytes) {
                return self.close(Close::Fin);
            }
        }
        // A connection that was cut with a reset must not say FIN before.
        if !self.is_closed() {
            let _ = self.sink(direction).shutdown(Shutdown::Write);
        }
    }

    /// Counts what is about to pass, before anybody can see an answer to it.
    fn count(&self, direction: Direction, bytes: &[u8], commands: &mut CommandReader) {
        let mut state = self.shared().lock();
        state.bytes[direction.index()] += bytes.len() as u64;
        if direction == Direction::Requests {
            let before = scripts(&state.requests);
            commands.read(bytes, &mut state.requests);
            let is_dropped = match state.drops {
                Drops::Nothing => false,
                Drops::NextReply => true,
                Drops::NextScriptReply => scripts(&state.requests) > before,
            };
            if is_dropped {
                state.drops = Drops::Nothing;
                self.drops_reply.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Writes it all, unless the connection ends first.
    fn write(&self, mut sink: &TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match sink.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut if !self.is_closed() => {}
                    ErrorKind::Interrupted => {}
                    _ => return false,
                },
            }
        }
        true
    }
}
