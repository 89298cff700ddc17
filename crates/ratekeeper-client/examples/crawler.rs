//! A crawler that obeys: eight workers share one polite client, follow links of one host, and are told how fast.
//!
//! `cargo run -p ratekeeper-client --features reqwest --example crawler -- [URL]`: without a URL it crawls a little
//! site of its own on loopback, which lets ten pages a second be read.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ratekeeper_client::{Event, Polite, RetryReport};
use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pages that are read at once, and at most.
const WORKERS: usize = 8;
const MAX_PAGES: usize = 500;

#[tokio::main]
#[allow(clippy::print_stdout, reason = "it is a program")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let start = match std::env::args().nth(1) {
        Some(url) => url,
        None => site().await?,
    };
    let crawl = crawl(&start).await?;
    println!(
        "{} pages in {:.1?}: {} sends, {} waits at the gate, {} pages refused",
        crawl.pages, crawl.took, crawl.sends, crawl.waits, crawl.refused
    );
    Ok(())
}

/// What a crawl came to.
pub(crate) struct Crawl {
    pub(crate) pages: usize,
    pub(crate) sends: u32,
    pub(crate) waits: usize,
    pub(crate) refused: usize,
    pub(crate) took: Duration,
}

/// Reads a page and all pages of its host that it leads to.
pub(crate) async fn crawl(start: &str) -> Result<Crawl, Box<dyn Error + Send + Sync>> {
    let waits = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&waits);
    let polite = Polite::builder()
        .observe(move |event| {
            if let Event::Waiting { .. } = event {
                *counted.lock().expect("nobody panics while counting") += 1;
            }
        })
        .build()?;
    // Retries are ours: reqwest's own would come on top.
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let client = ClientBuilder::new(http).with(polite).build();

    let began = Instant::now();
    let first = Url::parse(start)?;
    let mut seen = BTreeSet::from([first.clone()]);
    let mut next = VecDeque::from([first.clone()]);
    let mut reading = JoinSet::new();
    let mut crawl = Crawl { pages: 0, sends: 0, waits: 0, refused: 0, took: Duration::ZERO };
    loop {
        while reading.len() < WORKERS
            && let Some(url) = next.pop_front()
        {
            reading.spawn(read(client.clone(), url));
        }
        let Some(page) = reading.join_next().await else { break };
        let page = page??;
        crawl.pages += 1;
        crawl.sends += page.sends;
        crawl.refused += usize::from(page.refused);
        for link in page.links {
            let same_host = link.host_str() == first.host_str() && link.port() == first.port();
            if same_host && seen.len() < MAX_PAGES && seen.insert(link.clone()) {
                next.push_back(link);
            }
        }
    }
    crawl.took = began.elapsed();
    crawl.waits = *waits.lock().expect("nobody panics while counting");
    Ok(crawl)
}

struct Page {
    links: Vec<Url>,
    sends: u32,
    refused: bool,
}

async fn read(client: ClientWithMiddleware, url: Url) -> Result<Page, reqwest_middleware::Error> {
    let response = client.get(url.clone()).send().await?;
    let sends = response.extensions().get::<RetryReport>().map_or(1, |report| report.attempts);
    let refused = response.status().as_u16() == 429;
    let text = response.text().await?;
    let hrefs = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = hrefs.filter_map(|href| url.join(href).ok()).collect();
    Ok(Page { links, sends, refused })
}

/// A site of forty pages that lets ten a second be read, and says so; its address.
pub(crate) async fn site() -> Result<String, Box<dyn Error + Send + Sync>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let window = Arc::new(Mutex::new((Instant::now(), 0_u64)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let window = Arc::clone(&window);
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let page = page(request.uri().path(), &window);
                async move { Ok::<_, Infallible>(page) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(socket), service));
        }
    });
    Ok(format!("http://{address}/"))
}

fn page(path: &str, window: &Mutex<(Instant, u64)>) -> Response<Full<Bytes>> {
    const PAGES: u64 = 40;
    const QUOTA: u64 = 10;
    let mut window = window.lock().expect("nobody panics while counting");
    if window.0.elapsed() >= Duration::from_secs(1) {
        *window = (Instant::now(), 0);
    }
    let number: u64 = path.trim_start_matches('/').parse().unwrap_or(0);
    let links = [number * 2 + 1, number * 2 + 2].into_iter().filter(|page| *page < PAGES);
    let body: String = links.map(|page| format!("<a href=\"/{page}\">{page}</a> ")).collect();
    let answer = Response::builder().header("ratelimit-policy", format!("\"pages\";q={QUOTA};w=1"));
    let answer = if window.1 < QUOTA {
        window.1 += 1;
        let left = QUOTA - window.1;
        answer.header("ratelimit", format!("\"pages\";r={left};t=1")).body(Full::from(body))
    } else {
        answer.status(429).header("retry-after", "1").body(Full::default())
    };
    answer.unwrap_or_default()
}
