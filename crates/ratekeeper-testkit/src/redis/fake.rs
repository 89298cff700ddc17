//! A server that answers what it is told to: for answers that a real one gives only in trouble.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::ports;
use super::resp::raw;

type Answer = Arc<dyn Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync>;

struct Shared {
    names: Mutex<Vec<String>>,
    answer: Mutex<Answer>,
    commands: Mutex<Vec<Vec<Vec<u8>>>>,
    streams: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

/// A listener on loopback that speaks RESP2 and keeps nothing. It ends, with its connections, on drop.
///
/// Commands that it was given no answer for are answered as a server without data answers a client that
/// connects: `PING`, `AUTH`, `SELECT`, `CLIENT` and `READONLY` succeed, `INFO` says version 7.0.15, everything
/// else is an unknown command.
pub struct FakeRedis {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeRedis {
    /// Answers commands of these names, in any case, with the bytes that `answer` makes of their words; see
    /// [`raw`](super::raw). No bytes at all mean silence.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn start(names: &[&str], answer: impl Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = ports::listen();
        let port = ports::port_of(&listener);
        let shared = Arc::new(Shared {
            names: Mutex::new(names.iter().map(|name| name.to_ascii_uppercase()).collect()),
            answer: Mutex::new(Arc::new(answer)),
            commands: Mutex::default(),
            streams: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fake-redis".into())
            .spawn(move || accept_all(&listener, &for_thread))
            .expect("a thread can be started");
        Self { port, shared, thread: Some(thread) }
    }

    /// Answers every `EVAL` and `EVALSHA` with one error, for example `LOADING Redis is loading`.
    #[must_use]
    pub fn refusing_scripts(error: &str) -> Self {
        let reply = raw::error(error);
        Self::start(&["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"], move |_| reply.clone())
    }

    /// Answers differently from now on.
    pub fn set_answer(&self, names: &[&str], answer: impl Fn(&[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static) {
        *lock(&self.shared.names) = names.iter().map(|name| name.to_ascii_uppercase()).collect();
        *lock(&self.shared.answer) = Arc::new(answer);
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Every command so far, in the order of arrival, word by word.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        lock(&self.shared.commands).clone()
    }

    /// How many commands of this name have come, in any case.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        let is_named = |words: &&Vec<Vec<u8>>| words[0].eq_ignore_ascii_case(name.as_bytes());
        lock(&self.shared.commands).iter().filter(is_named).count()
    }

    /// Ends all connections; new ones are accepted.
    pub fn cut(&self) {
        for stream in lock(&self.shared.streams).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeRedis {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.cut();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // An answer that panics ends its own connection; what is behind the lock is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return ports::close(listener);
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        lock(&shared.streams).push(kept);
        let shared = Arc::clone(shared);
        // It ends with its connection, which `cut` ends at the latest.
        let _ = std::thread::Builder::new().name("fake-redis-connection".into()).spawn(move || {
            let _ = serve(stream, &shared);
        });
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let words = read_command(&mut reader)?;
        if words.is_empty() {
            continue;
        }
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        lock(&shared.commands).push(words.clone());
        let is_told = lock(&shared.names).contains(&name);
        // Outside the lock: an answer may take its time while other connections go on.
        let answer = is_told.then(|| Arc::clone(&lock(&shared.answer)));
        writer.write_all(&answer.map_or_else(|| usual(&name), |answer| answer(&words)))?;
    }
}

fn usual(name: &str) -> Vec<u8> {
    match name {
        "PING" => raw::status("PONG"),
        "AUTH" | "SELECT" | "CLIENT" | "READONLY" => raw::status("OK"),
        "INFO" => raw::bulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"),
        _ => raw::error(&format!("ERR unknown command '{name}', with args beginning with: ")),
    }
}

fn read_command(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<Vec<u8>>> {
    let count = read_header(reader, '*')?;
    (0..count)
        .map(|_| {
            let length = read_header(reader, '$')?;
            let mut word = vec![0; length + 2];
            reader.read_exact(&mut word)?;
            word.truncate(length);
            Ok(word)
        })
        .collect()
}

/// The number of a line such as `*3` or `$5`.
fn read_header(reader: &mut BufReader<TcpStream>, kind: char) -> io::Result<usize> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let number = line.trim_end().strip_prefix(kind).and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
