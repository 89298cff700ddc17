//! Requests: one of our own, and very many by `wrk`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{CLIENT_CORE, Server, pinned};
use crate::rows::Row;

/// An answer in its parts.
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) fields: Vec<String>,
    pub(crate) body: String,
}

/// Sends one request on a connection of its own.
pub(crate) fn ask(port: u16, request: &str) -> Result<Answer, String> {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = answer().map_err(|wrong| format!("port {port} does not answer: {wrong}"))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("an answer without an end")?;
    let mut lines = head.split("\r\n").map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    Ok(Answer { status, fields: lines.collect(), body: body.to_owned() })
}

/// What a load came to.
pub(crate) struct Sample {
    pub(crate) requests_per_second: f64,
    /// Microseconds of the server for each request.
    pub(crate) cpu_us: f64,
    /// How much of its core the client used: near 1 it is the bound.
    pub(crate) client_busy: f64,
}

pub(crate) struct Wrk;

impl Wrk {
    /// # Errors
    /// If a program is missing, with the package that has it.
    pub(crate) fn find() -> Result<Self, String> {
        for (program, argument, package) in [("wrk", "-v", "wrk"), ("taskset", "--version", "util-linux")] {
            // wrk ends with 1 whenever it has told its version.
            let there =
                Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if there.is_err() {
                return Err(format!("{program} is missing: apt install {package}"));
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err("this takes two cores: one for the server and one for wrk".to_owned());
        }
        Ok(Self)
    }

    /// Loads a server for some seconds, with fifty connections.
    ///
    /// # Errors
    /// If requests fail, or none is answered, on a second attempt either.
    pub(crate) fn load(
        &self,
        server: &Server,
        row: &Row,
        script: &Path,
        seconds: u64,
    ) -> Result<Sample, String> {
        // On a busy machine a short load may get no turn at all.
        self.try_load(server, row, script, seconds).or_else(|_| self.try_load(server, row, script, seconds))
    }

    fn try_load(&self, server: &Server, row: &Row, script: &Path, seconds: u64) -> Result<Sample, String> {
        let mut command = pinned(CLIENT_CORE, "wrk".as_ref());
        command.args(["-t1", "-c50", "-d"]).arg(format!("{seconds}s")).arg("-s").arg(script);
        command.arg(format!("http://127.0.0.1:{}{}", server.port, row.path()));
        let (cpu_before, client_before) = (server.cpu_ns(), children_ticks());
        let output = command.output().map_err(|wrong| format!("cannot run wrk: {wrong}"))?;
        let (cpu, client) = (server.cpu_ns() - cpu_before, children_ticks() - client_before);
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Option<Vec<u64>> = text
            .lines()
            .find_map(|line| line.strip_prefix("RESULT "))
            .and_then(|line| line.split(' ').map(|n| n.parse().ok()).collect());
        let Some([requests @ (1..=u64::MAX), micros @ (1..=u64::MAX), failed]) = numbers.as_deref() else {
            return Err(format!("wrk says {text:?} {:?}", String::from_utf8_lossy(&output.stderr)));
        };
        if *failed > 0 {
            return Err(format!("{}: {failed} of {requests} requests failed", row.name));
        }
        let (requests, micros) = (*requests as f64, *micros as f64);
        Ok(Sample {
            requests_per_second: requests / micros * 1e6,
            cpu_us: cpu as f64 / requests / 1e3,
            // A tick is 10 ms wherever the kernel shows it.
            client_busy: client as f64 * 1e4 / micros,
        })
    }
}

/// CPU time of the processes that this one has waited for, in ticks of 10 ms.
fn children_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain anything; `cutime` and `cstime` are fields 16 and 17.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').skip(13).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}
