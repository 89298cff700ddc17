//! Applications as processes, and the load on them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Row;
use crate::apps::{App, SUBCOMMAND, USER};

/// Where applications run, and where `wrk` does.
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// Different users in a load.
const USERS: usize = 20_000;

/// What a load came to.
pub(crate) struct Sample {
    pub(crate) requests_per_second: f64,
    /// Microseconds of the application for each request.
    pub(crate) cpu_us: f64,
}

/// What new keys came to.
pub(crate) struct Flood {
    pub(crate) keys: u64,
    pub(crate) before_mib: f64,
    pub(crate) after_mib: f64,
}

/// What a refusal says of the wait.
pub(crate) struct Refusal {
    pub(crate) status: String,
    pub(crate) retry_after: Option<String>,
}

pub(crate) struct Server {
    child: Child,
    port: u16,
}

fn pinned(core: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core, program]);
    command
}

impl Server {
    pub(crate) fn start(app: App, more: &[&str]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|wrong| format!("where is this program? {wrong}"))?;
        let mut command = pinned(SERVER_CORE, &own.to_string_lossy());
        command.args([SUBCOMMAND, app.name()]).args(more).stdout(Stdio::piped());
        let child = command.spawn().map_err(|wrong| format!("cannot start {command:?}: {wrong}"))?;
        let mut server = Self { child, port: 0 };
        let mut line = String::new();
        let output = server.child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line).map_err(|wrong| wrong.to_string())?;
        server.port = line.trim().parse().map_err(|_| format!("{command:?} says {line:?}"))?;
        Ok(server)
    }

    /// Loads it for some seconds, with fifty connections.
    pub(crate) fn load(&self, row: &Row, seconds: u64) -> Result<Sample, String> {
        let script = format!(
            "local requests = {{}}\nfor n = 1, {USERS} do\n  \
             requests[n] = 'GET {} HTTP/1.1\\r\\nHost: a\\r\\n{USER}: user:' .. n .. '\\r\\n\\r\\n'\nend\n\
             local next = 0\nrequest = function()\n  next = next % #requests + 1\n  return requests[next]\nend\n",
            row.path
        );
        let cpu_before = self.cpu_ns();
        let [requests, micros, failed] = self.wrk(&script, seconds)?;
        let cpu = self.cpu_ns() - cpu_before;
        // wrk counts every status from 400 on among the failures; refusals are what is asked for here.
        if failed > 0 && !row.refuses {
            return Err(format!("{}: {failed} of {requests} requests failed", row.name));
        }
        let (requests, micros) = (requests as f64, micros as f64);
        Ok(Sample { requests_per_second: requests / micros * 1e6, cpu_us: cpu as f64 / requests / 1e3 })
    }

    /// New keys only.
    pub(crate) fn flood(&self, seconds: u64) -> Result<Flood, String> {
        let before_mib = self.resident_mib();
        let script = format!(
            "local n = 0\nrequest = function()\n  n = n + 1\n  \
             return 'GET /key HTTP/1.1\\r\\nHost: a\\r\\n{USER}: new:' .. n .. '\\r\\n\\r\\n'\nend\n"
        );
        let [keys, ..] = self.wrk(&script, seconds)?;
        Ok(Flood { keys, before_mib, after_mib: self.resident_mib() })
    }

    /// Runs a script; requests, microseconds, failures.
    fn wrk(&self, script: &str, seconds: u64) -> Result<[u64; 3], String> {
        let path = std::env::temp_dir().join(format!("ratekeeper-bench-tower-{}.lua", std::process::id()));
        let done = "done = function(summary)\n  local e = summary.errors\n  \
                    io.write(string.format('RESULT %d %d %d\\n', summary.requests, summary.duration, \
                    e.connect + e.read + e.write + e.status + e.timeout))\nend\n";
        fs::write(&path, format!("{script}{done}")).map_err(|wrong| wrong.to_string())?;
        let mut command = pinned(CLIENT_CORE, "wrk");
        command.args(["-t1", "-c50", "-d"]).arg(format!("{seconds}s")).arg("-s").arg(&path);
        command.arg(format!("http://127.0.0.1:{}/", self.port));
        let output = command.output().map_err(|wrong| format!("cannot run wrk: {wrong}"));
        let _ = fs::remove_file(&path);
        let text = String::from_utf8_lossy(&output?.stdout).into_owned();
        let numbers = text.lines().find_map(|line| line.strip_prefix("RESULT "));
        let numbers: Option<Vec<u64>> =
            numbers.and_then(|line| line.split(' ').map(|n| n.parse().ok()).collect());
        match numbers.as_deref() {
            Some([requests @ (1..=u64::MAX), micros @ (1..=u64::MAX), failed]) => {
                Ok([*requests, *micros, *failed])
            }
            _ => Err(format!("wrk says {text:?}")),
        }
    }

    /// Nanoseconds of CPU time of all its threads.
    fn cpu_ns(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let times = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        times.sum()
    }

    fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or(f64::NAN) / 1_024.0
    }

    /// The head of the answer to one request.
    fn ask(&self, path: &str, user: &str) -> Result<String, String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{USER}: {user}\r\n\r\n");
            stream.write_all(request.as_bytes())?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        ask().map_err(|wrong| format!("{path}: {wrong}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// # Errors
/// If a path does not answer as its row is about.
pub(crate) fn check(server: &Server, row: &Row) -> Result<(), String> {
    let answer = server.ask(row.path, "somebody")?;
    match answer.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(format!("{}: {answer}", row.name)),
    }
}

/// What the second of two requests at once is told, of four in a second.
pub(crate) fn refusal(server: &Server) -> Result<Refusal, String> {
    let (_, answer) = (server.ask("/soon", "ann")?, server.ask("/soon", "ann")?);
    let head = answer.split_once("\r\n\r\n").map_or(answer.as_str(), |(head, _)| head);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().replacen("HTTP/1.1 ", "", 1);
    let retry_after = lines.find_map(|line| line.strip_prefix("retry-after: ")).map(str::to_owned);
    Ok(Refusal { status, retry_after })
}
