//! The tools that test with Redis do what they say.

mod cluster;
mod fake;
mod history;
mod proxy;
mod sentinel;
mod server;

use std::io;
use std::time::Duration;

use ratekeeper_testkit::redis::{Connection, Reply};

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_secs(5);

/// A read that is expected to find nothing waits so long.
const SILENCE: Duration = Duration::from_millis(150);

fn status(text: &str) -> Reply {
    Reply::Status(text.to_owned())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

/// Whether the connection says nothing for a while and stays.
fn is_silent(connection: &mut Connection) -> bool {
    connection.set_patience(SILENCE).expect("a patience above zero");
    let answer = connection.receive();
    connection.set_patience(PATIENCE).expect("a patience above zero");
    answer.is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
}
