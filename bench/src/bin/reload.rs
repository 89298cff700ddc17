//! A server that is reloaded every 100 ms while it is asked as fast as it answers.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin reload -- [--seconds N] [--clients N] [--server PATH]`
//! counts requests, reloads, errors, and what was admitted beside what the server says is used: a count that a
//! reload loses would be missing there. It ends with 1 if there is any error or difference. Without `--server` the
//! server is built first.

#[path = "http/build.rs"]
mod build;
#[path = "../common/served.rs"]
mod served;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::served::Served;

const USAGE: &str = "usage: reload [--seconds N] [--clients N] [--server PATH]";
const EVERY: Duration = Duration::from_millis(100);
/// Requests that are sent at once on a connection: the server is to be busy with them, not with sockets.
const PIPELINE: usize = 16;

type Failed = Box<dyn std::error::Error + Send + Sync>;

struct Task {
    seconds: u64,
    clients: usize,
    server: Option<PathBuf>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut task = Task { seconds: 60, clients: 4, server: None };
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} takes a value"))?;
        let number =
            || value.parse::<u64>().ok().filter(|n| *n > 0).ok_or(format!("{arg} takes a number above 0"));
        match arg.as_str() {
            "--seconds" => task.seconds = number()?,
            "--clients" => task.clients = usize::try_from(number()?).map_err(|wrong| wrong.to_string())?,
            "--server" => task.server = Some(value.into()),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(task)
}

/// A limit that never gives back what was used; each version of the file has another policy beside it.
fn version(n: u64) -> String {
    format!(
        "version: 1\npolicies:\n  - name: p\n    key: [ip]\n    limits: [{{ name: l, algorithm: fixed-window, limit: 1000000000 per 366d, align: first-request }}]\n  - name: other{n}\n    key: [ip]\n    limits: [{{ name: l, algorithm: gcra, limit: {}/s }}]\n",
        n % 1_000 + 1
    )
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: &str) -> Result<Self, Failed> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        Ok(self.0.get_mut().write_all(bytes)?)
    }

    /// The status and the body of an answer.
    fn answer(&mut self) -> Result<(u16, Vec<u8>), Failed> {
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name == "content-length" {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, body))
    }
}

/// What clients have seen.
#[derive(Default)]
struct Seen {
    requests: u64,
    allowed: u64,
    errors: u64,
    slowest: Duration,
}

fn client(address: &str, over: &AtomicBool) -> Result<Seen, Failed> {
    let body = r#"{"policy":"p","key":"k"}"#;
    let one =
        format!("POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let many = one.repeat(PIPELINE);
    let mut connection = Connection::open(address)?;
    let mut seen = Seen::default();
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        connection.send(many.as_bytes())?;
        for _ in 0..PIPELINE {
            let (status, body) = connection.answer()?;
            seen.requests += 1;
            match (status, body.starts_with(b"{\"allowed\":true")) {
                (200, true) => seen.allowed += 1,
                _ => seen.errors += 1,
            }
        }
        seen.slowest = seen.slowest.max(begun.elapsed());
    }
    Ok(seen)
}

fn operate(address: &str, method: &str, path: &str) -> Result<(u16, String), Failed> {
    let mut connection = Connection::open(address)?;
    connection.send(
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").as_bytes(),
    )?;
    let (status, body) = connection.answer()?;
    Ok((status, String::from_utf8(body)?))
}

fn run(task: &Task, folder: &Path) -> Result<bool, Failed> {
    let binary = task.server.clone().map_or_else(build::server, Ok)?;
    let (config, next) = (folder.join("ratekeeper.yaml"), folder.join("next.yaml"));
    std::fs::write(&config, version(0))?;
    let server = Served::start(&binary, &config)?;
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let (mut reloads, mut failed) = (0_u64, 0_u64);
    let mut slowest = Duration::ZERO;
    let all = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..task.clients).map(|_| scope.spawn(|| client(&server.http, &over))).collect();
        let mut reload = || -> Result<(), Failed> {
            while begun.elapsed() < Duration::from_secs(task.seconds) {
                let asked = Instant::now();
                reloads += 1;
                std::fs::write(&next, version(reloads))?;
                std::fs::rename(&next, &config)?;
                let (status, _) = operate(&server.admin, "POST", "/v1/reload")?;
                failed += u64::from(status != 200);
                slowest = slowest.max(asked.elapsed());
                // Waits for the next turn: the server is to be asked meanwhile.
                std::thread::sleep(EVERY.saturating_sub(asked.elapsed()));
            }
            Ok(())
        };
        let done = reload();
        over.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?);
        let all: Result<Vec<Seen>, Failed> = joined.collect();
        done.and(all)
    })?;
    let mut sum = Seen::default();
    for seen in all {
        sum.requests += seen.requests;
        sum.allowed += seen.allowed;
        sum.errors += seen.errors;
        sum.slowest = sum.slowest.max(seen.slowest);
    }
    let (_, key) = operate(&server.admin, "GET", "/v1/keys/p/k")?;
    let used = key.split("\"used\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
    let used = used.ok_or("the server does not say what is used")?;
    println!("seconds            {:>12.1}", begun.elapsed().as_secs_f64());
    println!("reloads            {reloads:>12}  failed {failed}, slowest {slowest:?}");
    println!(
        "requests           {:>12}  errors {}, slowest {PIPELINE} {:?}",
        sum.requests, sum.errors, sum.slowest
    );
    println!("admitted           {:>12}", sum.allowed);
    println!("used, by the server {used:>11}  lost {}", sum.allowed.abs_diff(used));
    Ok(failed == 0 && sum.errors == 0 && sum.allowed == used)
}

fn main() -> ExitCode {
    let task = match parse(std::env::args().skip(1)) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let folder = std::env::temp_dir().join(format!("ratekeeper-reload-{}", std::process::id()));
    let done = std::fs::create_dir_all(&folder).map_err(Failed::from).and_then(|()| run(&task, &folder));
    let _ = std::fs::remove_dir_all(&folder);
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}
