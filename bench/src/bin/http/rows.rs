//! What is asked.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::load::{Answer, Sample};
use crate::process::Server;

/// One limit that lets everybody in, three of them, and one that lets nobody in a second time.
const POLICIES: &str = "
version: 1
policies:
  - { name: one, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1000000/s, burst: 1000000 }] }
  - name: three
    key: [ip]
    limits:
      - { name: a, algorithm: gcra, limit: 1000000/s, burst: 1000000 }
      - { name: b, algorithm: gcra, limit: 10000000/minute, burst: 1000000 }
      - { name: c, algorithm: gcra, limit: 100000000/hour, burst: 1000000 }
  - { name: none, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day, burst: 1 }] }
";

/// Those policies, on a table for so many keys.
pub(crate) fn config(max_keys: u64) -> String {
    format!("{POLICIES}stores: {{ local: {{ memory: {{ max_keys: {max_keys} }} }} }}\n")
}

/// Different keys in a script.
const KEYS: usize = 20_000;

/// A kind of load.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    policy: &'static str,
    /// Checks in the body of a request, where it is a batch.
    batch: Option<usize>,
    /// Requests in a write.
    pipelined: usize,
    refused: bool,
    /// Whether the targets are meant for it.
    pub(crate) is_bound: bool,
}

const PLAIN: Row = Row {
    name: "one limit, allowed",
    file: "one",
    policy: "one",
    batch: None,
    pipelined: 1,
    refused: false,
    is_bound: true,
};

pub(crate) const ROWS: [Row; 6] = [
    PLAIN,
    Row { name: "one limit, refused", file: "none", policy: "none", refused: true, ..PLAIN },
    Row { name: "three limits, allowed", file: "three", policy: "three", is_bound: false, ..PLAIN },
    Row { name: "16 requests in a write", file: "pipelined", pipelined: 16, is_bound: false, ..PLAIN },
    Row { name: "batches of 16", file: "batch16", batch: Some(16), is_bound: false, ..PLAIN },
    Row { name: "batches of 100", file: "batch100", batch: Some(100), is_bound: false, ..PLAIN },
];

/// A row with what was measured.
pub(crate) struct Measured {
    pub(crate) row: &'static Row,
    pub(crate) script: PathBuf,
    pub(crate) bare: Server,
    pub(crate) ours_at: Vec<Sample>,
    pub(crate) bare_at: Vec<Sample>,
}

impl Row {
    pub(crate) fn path(&self) -> &'static str {
        if self.batch.is_some() { "/v1/check:batch" } else { "/v1/check" }
    }

    /// Decisions of a request.
    pub(crate) fn decisions(&self) -> f64 {
        self.batch.unwrap_or(1) as f64
    }

    /// The body of request number `n`: its keys are its own.
    fn body(&self, n: usize) -> String {
        let check = |key: usize| format!("{{\"policy\":\"{}\",\"key\":\"user:{key:07}\"}}", self.policy);
        match self.batch {
            None => check(n),
            Some(size) => {
                let checks: Vec<String> = (n * size..(n + 1) * size).map(check).collect();
                format!("{{\"checks\":[{}]}}", checks.join(","))
            }
        }
    }

    /// Request number `n` as bytes.
    pub(crate) fn request(&self, n: usize) -> String {
        let body = self.body(n);
        format!(
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path(),
            body.len()
        )
    }

    /// What `wrk` runs: requests are made before the first is sent, and each is another.
    pub(crate) fn script(&self) -> String {
        let requests = KEYS / self.batch.unwrap_or(1);
        let mut script = "local requests = {\n".to_owned();
        for first in (0..requests).step_by(self.pipelined) {
            let together: String =
                (first..(first + self.pipelined).min(requests)).map(|n| self.request(n)).collect();
            let _ = writeln!(script, "{},", lua(&together));
        }
        script.push_str(
            "}\nlocal next = 0\n\
             request = function()\n  next = next % #requests + 1\n  return requests[next]\nend\n\
             done = function(summary)\n  local e = summary.errors\n  \
             io.write(string.format('RESULT %d %d %d\\n', summary.requests, summary.duration, \
             e.connect + e.read + e.write + e.status + e.timeout))\nend\n",
        );
        script
    }

    /// # Errors
    /// If the server does not answer what the row is about.
    pub(crate) fn check(&self, answer: &Answer) -> Result<(), String> {
        let allowed = if self.refused { "\"allowed\":false" } else { "\"allowed\":true" };
        if answer.status.contains(" 200 ") && answer.body.contains(allowed) {
            return Ok(());
        }
        Err(format!("{}: {} {}", self.name, answer.status, answer.body))
    }
}

/// A text of Lua.
fn lua(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\r', "\\r").replace('\n', "\\n"))
}
