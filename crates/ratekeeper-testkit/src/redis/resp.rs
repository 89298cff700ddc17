//! A small client of the Redis protocol (RESP2): blocking, one connection, no pooling.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for one answer, for example a `MIGRATE`, before the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `$-1` or `*-1`: there is no value.
    Nil,
    /// `:`
    Int(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `+`, for example `OK`.
    Status(String),
    /// `-`, the whole line: its first word is the code.
    Error(String),
    /// `*`
    Array(Vec<Self>),
}

impl Reply {
    /// The text of a status, a value, an integer or an error; empty for no value.
    ///
    /// # Panics
    /// If it is an array.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Nil => String::new(),
            Self::Int(value) => value.to_string(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Status(text) | Self::Error(text) => text.clone(),
            Self::Array(_) => panic!("an array has no text: {self:?}"),
        }
    }

    /// The integer, also one that is written as text.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => other.text().parse().unwrap_or_else(|_| panic!("not an integer: {other:?}")),
        }
    }

    /// The items of an array.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn items(self) -> Vec<Self> {
        match self {
            Self::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// The line of an error.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(line) => Some(line),
            _ => None,
        }
    }

    /// The reply, if it is not an error.
    ///
    /// # Panics
    /// If it is one.
    #[track_caller]
    pub fn good(self) -> Self {
        assert!(self.error().is_none(), "the server refused: {self:?}");
        self
    }
}

/// A connection. Requests may be sent ahead of their replies.
#[derive(Debug)]
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects to a port of loopback.
    ///
    /// # Errors
    /// If nobody listens there or nobody answers within ten seconds.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Waits at most so long for a reply from now on.
    ///
    /// # Errors
    /// If `patience` is zero.
    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.0.get_ref().set_read_timeout(Some(patience))
    }

    /// Sends a command and reads its reply.
    ///
    /// # Errors
    /// If the connection ends, is too slow, or says what the protocol does not allow.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        self.0.get_mut().write_all(&raw::array_of_bulks(words))
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn receive(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Reply::Bulk(bytes)
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(count) => Reply::Array((0..count).map(|_| self.receive()).collect::<io::Result<_>>()?),
            },
            _ => return Err(malformed(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {line:?}"))
}

/// Replies as bytes, for [`FakeRedis`](super::FakeRedis).
pub mod raw {
    /// `-text`: the first word is the code, as in `LOADING Redis is loading the dataset in memory`.
    #[must_use]
    pub fn error(text: &str) -> Vec<u8> {
        format!("-{text}\r\n").into_bytes()
    }

    /// `+text`
    #[must_use]
    pub fn status(text: &str) -> Vec<u8> {
        format!("+{text}\r\n").into_bytes()
    }

    /// `:value`
    #[must_use]
    pub fn int(value: i64) -> Vec<u8> {
        format!(":{value}\r\n").into_bytes()
    }

    /// No value.
    #[must_use]
    pub fn nil() -> Vec<u8> {
        b"$-1\r\n".to_vec()
    }

    /// A value.
    #[must_use]
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let bytes = bytes.as_ref();
        let mut reply = format!("${}\r\n", bytes.len()).into_bytes();
        reply.extend_from_slice(bytes);
        reply.extend_from_slice(b"\r\n");
        reply
    }

    /// Replies in a list.
    #[must_use]
    pub fn array(items: &[Vec<u8>]) -> Vec<u8> {
        let mut reply = format!("*{}\r\n", items.len()).into_bytes();
        reply.extend(items.iter().flatten());
        reply
    }

    /// Values in a list; commands are written so.
    #[must_use]
    pub fn array_of_bulks<A: AsRef<[u8]>>(words: &[A]) -> Vec<u8> {
        array(&words.iter().map(bulk).collect::<Vec<_>>())
    }
}
