//! The load on a server in this process, through its HTTP listener.

use std::sync::Arc;

use ratekeeper::Stopwatch;
use ratekeeper_policy::Config;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::cli::Failure;
use crate::cli::bench::load::{Case, Keys, Measured, Share, fill, on_threads};
use crate::cli::bench::spread::Spread;
use crate::client::{Address, Connection, Trouble};
use crate::input;
use crate::transport::http;

/// How many requests a connection makes before it is measured.
const WARM_UP_REQUESTS: u64 = 200;

/// Measures whole requests. Each thread has one connection and sends when it has been answered.
pub(super) fn measure(case: &Case, config: Config) -> Result<Measured, Failure> {
    let app = input::app(config)?;
    let live = app.live_for_long();
    let Some(limit) = live.config().policies.first().and_then(|policy| policy.limits().first()) else {
        return Err(Failure::Other("error: nothing to measure".to_owned()));
    };
    let Some(store) = live.store_of(0).memory() else {
        return Err(Failure::Other("error: nothing to measure".to_owned()));
    };
    fill(store, &limit.named, case.keys)?;
    let app = Arc::new(app);
    let io = |wrong: std::io::Error| Failure::Other(format!("error: cannot serve on loopback: {wrong}"));
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(io)?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(io)?;
    let address = Address::of_listener(&listener.local_addr().map_err(io)?.to_string());
    let (stop, stopped) = watch::channel(false);
    let most = u32::try_from(case.threads).unwrap_or(u32::MAX);
    let site = Arc::new(http::Service::new(Arc::clone(&app)));
    let serving = runtime.spawn(http::serve(listener, site, None, most, stopped));
    let shares = on_threads(case, |thread| {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(io)?;
        runtime.block_on(client(case, &address, thread))
    });
    // Errors mean that it has ended by itself.
    let _ = stop.send(true);
    let _ = runtime.block_on(serving);
    Ok(Measured { shares: shares?, bytes: store.memory_bytes() + store.log_bytes() })
}

async fn client(case: &Case, address: &Address, thread: u64) -> Result<Share, Failure> {
    let failed = |trouble: Trouble| Failure::Other(format!("error: our own server at {address}: {trouble}"));
    let mut connection = Connection::open(address).await.map_err(failed)?;
    let mut keys = Keys::new(case.keys, thread);
    for _ in 0..WARM_UP_REQUESTS {
        ask(&mut connection, &mut keys).await.map_err(failed)?;
    }
    let mut share = Share { decisions: 0, allowed: 0, took_ns: 0, spread: Spread::new() };
    let all = Stopwatch::start();
    while share.took_ns < case.length_ns() {
        let one = Stopwatch::start();
        let allowed = ask(&mut connection, &mut keys).await.map_err(failed)?;
        share.spread.add(one.elapsed_ns());
        share.decisions += 1;
        share.allowed += u64::from(allowed);
        share.took_ns = all.elapsed_ns();
    }
    Ok(share)
}

async fn ask(connection: &mut Connection, keys: &mut Keys) -> Result<bool, Trouble> {
    // The policy of a configuration from flags; a key of letters and digits needs no escapes.
    let body = [&br#"{"policy":"policy","key":""#[..], keys.random(), br#""}"#].concat();
    match connection.post("/v1/check", body).await? {
        (200, answer) => Ok(answer.starts_with(br#"{"allowed":true"#)),
        (status, answer) => {
            Err(Trouble::Strange(format!("status {status}: {}", String::from_utf8_lossy(&answer))))
        }
    }
}
