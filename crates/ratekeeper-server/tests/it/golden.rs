//! Every status, field and body of the HTTP server, as `golden.txt` has them. Each exchange runs four ways, on a
//! server of its own for each way: by the short way of HTTP/1.1, through hyper by an odd field, through hyper in
//! chunks, and over HTTP/2. All four answer the same. `UPDATE=1` writes the file anew.
//!
//! In the file `>` is what is asked, first the listener, and `<` what is answered. Waits of a minute and more are
//! shown as the next whole hour, since every wait of these policies is a whole number of hours when it begins;
//! what is exact in them is checked by [`fields::check`] before. Long hexadecimal numbers are `HEX`, and `{id}` is
//! the one that was answered last.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::fields;
use crate::http2::Http2;
use crate::support::{Connection, Response, Server, request};

const FILE: &str = "tests/it/golden.txt";

/// The configurations of the sections.
const CONFIGS: [(&str, &str); 4] = [
    (
        "main",
        "
version: 1
policies:
  - name: api
    key: [header:x-api-key, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 1/hour, burst: 2 }
      - { name: day, algorithm: fixed-window, limit: 3/day, align: first-request }
      - { name: global, algorithm: gcra, limit: 24/day, burst: 24, key: [global] }
  - name: both
    key: [ip]
    limits:
      - { name: hour, algorithm: fixed-window, limit: 1/hour, align: first-request }
      - { name: wide, algorithm: fixed-window, limit: 9/day, align: first-request }
      - { name: log, algorithm: sliding-window-log, limit: 1/day }
  - { name: paced, key: [ip], limits: [{ name: queue, algorithm: leaky-bucket, limit: 1/hour, queue: 1 }] }
  - { name: fast, key: [ip], limits: [{ name: f, algorithm: gcra, limit: 10 per 100ms, burst: 10 }] }
  - name: unix
    key: [ip]
    headers: [ratelimit, retry-after, x-ratelimit]
    limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }]
  - name: delta
    key: [ip]
    headers: [x-ratelimit-delta]
    limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - name: bare
    key: [ip]
    headers: []
    limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - { name: llm, key: [ip], limits: [{ name: tokens, algorithm: token-bucket, limit: 10/hour, burst: 1000 }] }
  - name: two
    key: [ip]
    limits:
      - { name: own, algorithm: gcra, limit: 5/day, burst: 5 }
      - { name: tenant, algorithm: gcra, limit: 3/day, burst: 3, key: [header:x-tenant] }
",
    ),
    (
        "policies",
        "
version: 1
client_ip: { trusted_proxies: [10.0.0.0/8] }
policies:
  - name: api
    match: { path: \"/api/**\" }
    key: [header:x-api-key, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 1/hour, burst: 2 }
      - { name: global, algorithm: gcra, limit: 24/day, burst: 24, key: [global] }
    overrides:
      - { key: \"partner-*\", limits: { burst: { limit: 1/hour, burst: 5 } } }
      - { key: 192.0.2.0/24, action: bypass }
      - { key: mallory, action: block }
  - name: write
    match: { method: [POST, PUT], path: \"/api/**\" }
    key: [ip]
    headers: []
    limits: [{ name: day, algorithm: fixed-window, limit: 3/day, align: first-request }]
  - name: watch
    match: { path: \"/api/**\" }
    key: [ip]
    mode: shadow
    limits: [{ name: one, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - { name: health, match: { path: /healthz }, action: bypass }
  - { name: admin, match: { path: \"/admin/**\" }, action: block }
  - { name: asleep, key: [ip], mode: off, limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
  - { name: try, match: { path: /try }, key: [ip], mode: shadow, limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }
  - name: sms
    match: { path: /sms }
    key: [header:x-user]
    missing_key: reject
    cost: { header: x-cost, default: 2, max: 5 }
    ratelimit_dialect: both
    limits: [{ name: code, algorithm: fixed-window, limit: 6/day, align: first-request }]
  - name: late
    match: { path: /late }
    key: [ip]
    on_excess: drain
    limits: [{ name: tokens, algorithm: token-bucket, limit: 10/hour, burst: 10 }]
",
    ),
    (
        "full",
        "
version: 1
stores: { local: { memory: { max_keys: 1000, on_full: deny } } }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }]
",
    ),
    (
        "token",
        "
version: 1
listen: { http: 127.0.0.1:8080, admin: { address: 127.0.0.1:9090, token: a-token-of-20-letters } }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }]
",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Short,
    OddField,
    Chunked,
    Http2,
}

/// One exchange of the file.
struct Exchange {
    title: String,
    section: String,
    /// The lines behind `>`.
    asked: Vec<String>,
    /// The lines behind `<`.
    answered: Vec<String>,
}

/// What is asked, read from its lines.
struct Asked {
    door: String,
    method: String,
    path: String,
    host: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A server and the connections to it.
struct Talk {
    server: Server,
    way: Way,
    connections: HashMap<String, Connection>,
    http2: HashMap<String, Http2>,
    /// The id that was answered last.
    id: String,
}

fn read(text: &str) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            section = name.to_owned();
        } else if let Some(title) = line.strip_prefix("# ") {
            let (title, section) = (title.to_owned(), section.clone());
            all.push(Exchange { title, section, asked: Vec::new(), answered: Vec::new() });
        } else if let Some(exchange) = all.last_mut() {
            let rest = line.get(2..).unwrap_or_default().to_owned();
            match line.chars().next() {
                Some('>') => exchange.asked.push(rest),
                Some('<') => exchange.answered.push(rest),
                _ => assert_eq!(line, "", "a line of no kind"),
            }
        }
    }
    all
}

fn written(all: &[Exchange]) -> String {
    let (mut text, mut section) = (String::new(), "");
    for exchange in all {
        if section != exchange.section {
            section = &exchange.section;
            let _ = writeln!(text, "=== {section}\n");
        }
        let _ = writeln!(text, "# {}", exchange.title);
        for (mark, lines) in [('>', &exchange.asked), ('<', &exchange.answered)] {
            for line in lines {
                let _ = writeln!(text, "{}", format!("{mark} {line}").trim_end());
            }
        }
        text.push('\n');
    }
    text
}

impl Asked {
    fn of(lines: &[String], id: &str) -> Self {
        let mut lines = lines.iter().map(String::as_str);
        let first: Vec<&str> = lines.next().expect("a request").split(' ').collect();
        let [door, method, path] = first[..] else { panic!("`LISTENER METHOD PATH`: {first:?}") };
        let (mut host, mut fields, mut body) = ("test".to_owned(), Vec::new(), Vec::new());
        if door == "admin" {
            host = "localhost".to_owned();
        }
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            match line.split_once(": ").expect("a field") {
                ("host", value) => host = value.to_owned(),
                (name, value) => fields.push((name.to_owned(), value.to_owned())),
            }
        }
        for line in lines {
            match line.strip_prefix("@spaces ") {
                Some(count) => body.resize(count.parse().expect("a number"), b' '),
                None => body.extend(line.replace("{id}", id).replace("{1 KiB}", &"k".repeat(1_024)).bytes()),
            }
        }
        let (door, method, path) = (door.to_owned(), method.to_owned(), path.to_owned());
        Self { door, method, path, host, fields, body }
    }

    /// As HTTP/1.1 sends it.
    fn http1(&self, way: Way) -> Vec<u8> {
        let Self { method, path, host, .. } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if way == Way::OddField {
            head.push_str("connection: keep-alive, x\r\n");
        }
        let mut bytes = head.into_bytes();
        if way == Way::Chunked {
            bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
            for piece in self.body.chunks(self.body.len().div_ceil(2).max(1)) {
                bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                bytes.extend(piece);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        } else {
            bytes.extend(format!("content-length: {}\r\n\r\n", self.body.len()).bytes());
            bytes.extend(&self.body);
        }
        bytes
    }
}

impl Talk {
    fn begin(section: &str, way: Way) -> Self {
        let (_, config) = CONFIGS.iter().find(|(name, _)| *name == section).expect("a configuration");
        let server = Server::of(config);
        if section == "full" {
            fill(&server);
        }
        let (connections, http2) = (HashMap::new(), HashMap::new());
        Self { server, way, connections, http2, id: String::new() }
    }

    fn ask(&mut self, asked: &Asked) -> Response {
        let address = if asked.door == "admin" { &self.server.admin } else { &self.server.address };
        let door = asked.door.clone();
        if self.way == Way::Http2 {
            let client = self.http2.entry(door).or_insert_with(|| Http2::open(address));
            return client.ask(&asked.method, &asked.host, &asked.path, &asked.fields, &asked.body);
        }
        let connection = self.connections.entry(door.clone()).or_insert_with(|| Connection::open(address));
        connection.send(&asked.http1(self.way));
        let answer = if asked.method == "HEAD" { connection.head() } else { connection.response() };
        if answer.header("connection") == Some("close") {
            assert!(connection.rest().is_empty(), "nothing follows the last answer");
            self.connections.remove(&door);
        }
        answer
    }

    /// The lines of an answer, without what differs from one way or one moment to another.
    #[expect(clippy::print_stdout, reason = "shown if the test fails there")]
    fn exchange(&mut self, exchange: &Exchange) -> Vec<String> {
        println!("{:?}: {}", self.way, exchange.title);
        let asked = Asked::of(&exchange.asked, &self.id);
        let answer = self.ask(&asked);
        fields::check(&answer);
        let id = answer.body.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        if let Some(id) = id.filter(|id| id.len() == 32) {
            self.id = id.to_owned();
        }
        let mut lines: Vec<String> = answer
            .headers
            .iter()
            .filter(|(name, _)| name != "date" && name != "connection")
            .filter(|(name, _)| name != "content-length" || asked.method == "HEAD")
            .map(|(name, value)| format!("{name}: {}", masked(&shown(&answer, name, value))))
            .collect();
        lines.sort();
        lines.insert(0, answer.status.to_string());
        if asked.path == "/metrics" && answer.status == 200 {
            lines.extend([String::new(), "(the page)".to_owned()]);
        } else if !answer.body.is_empty() {
            lines.push(String::new());
            lines.extend(masked(&answer.body).lines().map(str::to_owned));
        }
        lines
    }
}

/// Makes up keys until a store that is full has no place for any more.
fn fill(server: &Server) {
    for batch in 0..20 {
        let checks: Vec<String> =
            (0..1_000).map(|key| format!(r#"{{"policy":"p","key":"{batch}-{key}"}}"#)).collect();
        let mut connection = server.connect();
        let body = format!(r#"{{"checks":[{}]}}"#, checks.join(","));
        connection.send(&request("POST", "/v1/check:batch", "", body.as_bytes()));
        assert_eq!(connection.response().status, 200);
    }
}

/// A field's value; an instant is shown from the answer's `Date` on, to the nearest hour.
fn shown(answer: &Response, name: &str, value: &str) -> String {
    let (Some(date), Ok(reset)) = (answer.header("date"), value.parse::<u64>()) else {
        return value.to_owned();
    };
    if name != "x-ratelimit-reset" || reset < 1_000_000_000 {
        return if matches!(name, "retry-after" | "x-ratelimit-reset") {
            hours(reset, 1)
        } else {
            value.to_owned()
        };
    }
    let date = httpdate::parse_http_date(date).expect("a date");
    let date = date.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    format!("Date + {}", (reset - date + 1_800) / 3_600 * 3_600)
}

/// A wait, if it is not short, as the next whole hour; `second` is one in its unit.
fn hours(wait: u64, second: u64) -> String {
    let hour = 3_600 * second;
    if wait < 60 * second { wait.to_string() } else { (wait.div_ceil(hour) * hour).to_string() }
}

fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (mark, second) in [
        ("\"retry_after_ms\":", 1_000),
        ("\"reset_after_ms\":", 1_000),
        ("\"delay_ms\":", 1_000),
        ("\"retry_after\":", 1),
        (";t=", 1),
        ("Retry in ", 1),
    ] {
        let mut parts = text.split(mark);
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            let number = number.parse().map_or_else(|_| number.to_owned(), |wait| hours(wait, second));
            whole = whole + mark + &number + rest;
        }
        text = whole;
    }
    // Ids and hashes.
    let is_long = |word: &&str| word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words: Vec<String> = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect();
    for word in words.iter().map(String::as_str).filter(is_long) {
        text = text.replace(word, "HEX");
    }
    text
}

#[test]
fn every_answer_is_the_one_on_file_whichever_way_it_was_asked_for() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    let mut all = read(&text);
    assert!(all.len() > 50, "only {} exchanges", all.len());
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = String::new();
    for (section, _) in CONFIGS {
        for way in [Way::Short, Way::OddField, Way::Chunked, Way::Http2] {
            let mut talk = Talk::begin(section, way);
            for exchange in all.iter_mut().filter(|exchange| exchange.section == section) {
                let lines = talk.exchange(exchange);
                if update && way == Way::Short {
                    exchange.answered.clone_from(&lines);
                }
                if lines != exchange.answered {
                    let (expected, found) = (exchange.answered.join("\n  "), lines.join("\n  "));
                    let _ = writeln!(
                        wrong,
                        "{section}: {}, {way:?}\n  {expected}\n is\n  {found}\n",
                        exchange.title
                    );
                }
            }
        }
    }
    if update {
        std::fs::write(&file, written(&all)).expect("the file can be written");
    }
    assert!(wrong.is_empty(), "{wrong}");
}
