//! Three clients of one server beside each other in time: one that asks again at once, one that backs off without
//! reading what it is told, and the polite one.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin polite -- [--seconds N] [--workers N] [--server PATH]`:
//! a table as markdown on standard output. It ends with 1 if the polite client used less than 95 % of its quota, or
//! was refused after the first window. Without `--server` the server is built first.

#[path = "http/build.rs"]
mod build;
#[path = "../common/served.rs"]
mod served;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ratekeeper_client::{Backoff, Draw, PoliteLayer, PoliteOptions};
use tower::{Layer as _, Service as _, service_fn};

use crate::served::Served;

const USAGE: &str = "usage: polite [--seconds N] [--workers N] [--server PATH]";

type Failed = Box<dyn std::error::Error + Send + Sync>;
type Http = Client<HttpConnector, Full<Bytes>>;

/// A limit that the clients meet, each with a key of its own.
struct Row {
    name: &'static str,
    limit: &'static str,
    /// Units that are there at first, and that come in each window.
    burst: u64,
    per_window: u64,
    window: Duration,
    /// Whether what comes in a window comes at its beginning.
    at_once: bool,
}

const ROWS: [Row; 2] = [
    Row {
        name: "gcra 50/s, burst 100",
        limit: "algorithm: gcra, limit: 50/s, burst: 100",
        burst: 100,
        per_window: 50,
        window: Duration::from_secs(1),
        at_once: false,
    },
    Row {
        name: "fixed-window 200 per 4 s",
        limit: "algorithm: fixed-window, limit: 200 per 4s",
        burst: 0,
        per_window: 200,
        window: Duration::from_secs(4),
        at_once: true,
    },
];

impl Row {
    /// What a client may have in this time from the beginning of a window.
    fn quota(&self, elapsed: Duration) -> u64 {
        let windows = elapsed.as_secs_f64() / self.window.as_secs_f64();
        let windows = if self.at_once { windows.ceil() } else { windows };
        self.burst + (windows * self.per_window as f64) as u64
    }

    /// What a client cannot have been told before it begins.
    fn first(&self) -> Duration {
        Duration::from_secs(2).max(self.window)
    }
}

#[derive(Clone, Copy)]
enum Manner {
    AtOnce,
    Backoff,
    Polite,
}

const MANNERS: [(Manner, &str); 3] = [
    (Manner::AtOnce, "asks again after 10 ms"),
    (Manner::Backoff, "backs off by full jitter, 100 ms to 10 s"),
    (Manner::Polite, "ratekeeper-client"),
];

/// What a client's requests came to.
#[derive(Default)]
struct Counts {
    admitted: AtomicU64,
    refused: AtomicU64,
    refused_later: AtomicU64,
}

impl Counts {
    fn note(&self, status: StatusCode, later: bool) {
        let count = if status.is_success() { &self.admitted } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        if later && !status.is_success() {
            self.refused_later.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Task {
    seconds: u64,
    workers: u64,
    server: Option<PathBuf>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut task = Task { seconds: 32, workers: 8, server: None };
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} takes a value"))?;
        let number =
            || value.parse::<u64>().ok().filter(|n| *n > 0).ok_or(format!("{arg} takes a number above 0"));
        match arg.as_str() {
            "--seconds" => task.seconds = number()?,
            "--workers" => task.workers = number()?,
            "--server" => task.server = Some(value.into()),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(task)
}

/// A server of both limits, ended with its handle.
struct Server {
    served: Served,
    folder: PathBuf,
}

impl Server {
    fn start(binary: &Path) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("ratekeeper-polite-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut config = "version: 1\npolicies:\n".to_owned();
        for (number, row) in ROWS.iter().enumerate() {
            config +=
                &format!("  - {{ name: p{number}, key: [ip], limits: [{{ name: l, {} }}] }}\n", row.limit);
        }
        let file = folder.join("ratekeeper.yaml");
        std::fs::write(&file, config)?;
        Ok(Self { served: Served::start(binary, &file)?, folder })
    }

    fn url(&self) -> String {
        format!("http://{}/v1/check?status=true", self.served.http)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn main() -> ExitCode {
    let task = match parse(std::env::args().skip(1)) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match race(&task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all clients on all limits; whether the polite one did as it should.
fn race(task: &Task) -> Result<bool, Failed> {
    let binary = task.server.clone().map_or_else(build::server, Ok)?;
    let server = Server::start(&binary)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!(
        "| limit | client | sent | admitted | refused | refused after the first window | share of the quota | elapsed |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut good = true;
    for (number, row) in ROWS.iter().enumerate() {
        let counts = MANNERS.map(|_| Arc::new(Counts::default()));
        // From the beginning of a window, which is what the quota is counted from.
        std::thread::sleep(to_the_next(row.window)?);
        let began = Instant::now();
        let ends = began + Duration::from_secs(task.seconds);
        let elapsed = runtime.block_on(async {
            let clients = MANNERS.iter().zip(&counts).map(|((manner, _), counts)| {
                let body = format!(r#"{{"policy":"p{number}","key":"{}"}}"#, *manner as u8);
                let ask =
                    Ask { url: server.url(), body, began, first: row.first(), counts: Arc::clone(counts) };
                tokio::spawn(client(*manner, ask, task.workers, ends))
            });
            let mut elapsed = Vec::new();
            for client in clients.collect::<Vec<_>>() {
                elapsed.push(client.await??);
            }
            Ok::<_, Failed>(elapsed)
        })?;
        for (((manner, name), counts), elapsed) in MANNERS.iter().zip(&counts).zip(elapsed) {
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (admitted, refused) = (read(&counts.admitted), read(&counts.refused));
            let later = read(&counts.refused_later);
            let share = 100.0 * admitted as f64 / row.quota(Duration::from_secs(task.seconds)) as f64;
            println!(
                "| {} | {name} | {} | {admitted} | {refused} | {later} | {share:.1} % | {:.1} s |",
                row.name,
                admitted + refused,
                elapsed.as_secs_f64()
            );
            good &= !matches!(manner, Manner::Polite) || (share >= 95.0 && later == 0);
        }
    }
    Ok(good)
}

/// The time until a window of this length begins, on the clock that the server has too.
fn to_the_next(window: Duration) -> Result<Duration, Failed> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let window = window.as_micros();
    Ok(Duration::from_micros(u64::try_from(window - now % window)?))
}

/// One question, to be asked many times.
#[derive(Clone)]
struct Ask {
    url: String,
    body: String,
    began: Instant,
    first: Duration,
    counts: Arc<Counts>,
}

impl Ask {
    fn request(&self) -> Result<Request<Full<Bytes>>, Failed> {
        Ok(Request::post(&self.url).body(Full::from(self.body.clone()))?)
    }

    /// Sends a request, and counts what came.
    async fn send(&self, http: &Http, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failed> {
        let response = http.request(request).await?;
        self.counts.note(response.status(), self.began.elapsed() >= self.first);
        Ok(response)
    }
}

/// Asks by so many workers until the time is over; how long it was.
async fn client(manner: Manner, ask: Ask, workers: u64, ends: Instant) -> Result<Duration, Failed> {
    let http = Client::builder(TokioExecutor::new()).build_http();
    let began = ask.began;
    let polite = PoliteLayer::per_host();
    let workers = (0..workers).map(|worker| match manner {
        Manner::AtOnce => tokio::spawn(at_once(ask.clone(), Http::clone(&http), ends)),
        Manner::Backoff => tokio::spawn(backing_off(ask.clone(), Http::clone(&http), worker, ends)),
        Manner::Polite => tokio::spawn(politely(ask.clone(), Http::clone(&http), polite.clone(), ends)),
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await??;
    }
    Ok(began.elapsed())
}

async fn at_once(ask: Ask, http: Http, ends: Instant) -> Result<(), Failed> {
    while Instant::now() < ends {
        if !ask.send(&http, ask.request()?).await?.status().is_success() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

async fn backing_off(ask: Ask, http: Http, worker: u64, ends: Instant) -> Result<(), Failed> {
    let backoff = Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(10));
    let mut failures = 0;
    let mut dice = worker;
    while Instant::now() < ends {
        failures =
            if ask.send(&http, ask.request()?).await?.status().is_success() { 0 } else { failures + 1 };
        if failures > 0 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let wait = backoff.wait(failures, Duration::ZERO, Draw(dice));
            tokio::time::sleep(wait.min(ends.saturating_duration_since(Instant::now()))).await;
        }
    }
    Ok(())
}

async fn politely(ask: Ask, http: Http, polite: PoliteLayer, ends: Instant) -> Result<(), Failed> {
    let sending = ask.clone();
    let mut service = polite.layer(service_fn(move |request| {
        let (ask, http) = (sending.clone(), http.clone());
        async move { ask.send(&http, request).await }
    }));
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut request = ask.request()?;
        request.extensions_mut().insert(PoliteOptions::default().within(left));
        if let Err(error) = service.call(request).await {
            // Its gate does not open before the end: there is nothing left to do.
            error.downcast::<ratekeeper_client::Gated>()?;
            return Ok(());
        }
    }
}
