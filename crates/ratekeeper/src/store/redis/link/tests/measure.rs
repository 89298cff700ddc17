//! What putting jobs together is worth: run by hand, in release.
//! `cargo test --release -p ratekeeper --features redis measure -- --ignored --nocapture`

use redis::aio::MultiplexedConnection;

use super::*;

/// One key: the time, a read, a write with an end.
const DECIDE: &str = "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] local r = { now } \
    for i, k in ipairs(KEYS) do local v = tonumber(redis.call('GET', k) or 0) + 1 \
    redis.call('SET', k, v, 'PXAT', t[1] * 1000 + 60000) r[i + 1] = v end return r";
const CALLERS: u64 = 64;
const EACH: u64 = 3000;
const LONE: usize = 20_000;

fn cpu_us(server: &Server) -> u64 {
    let info = server.cli(&["info", "cpu"]);
    let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let us = |text: String| text.replace('.', "").parse::<u64>().unwrap();
    us(line("used_cpu_sys:")) + us(line("used_cpu_user:"))
}

/// A connection on a thread of its own, as any program has it whose callers are more than one thread.
fn apart(port: u16) -> (MultiplexedConnection, String) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            sender.send(direct(port).await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

/// What this process has used, in hundredths of a second: the callers and the thread of the link.
fn own_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

async fn direct(port: u16) -> (MultiplexedConnection, String) {
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let info = redis::IntoConnectionInfo::into_connection_info(format!("redis://127.0.0.1:{port}")).unwrap();
    let client = redis::Client::open(info.set_tcp_settings(tcp)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let sha = redis::cmd("SCRIPT").arg("LOAD").arg(DECIDE).query_async(&mut connection).await.unwrap();
    (connection, sha)
}

async fn bare(connection: &mut MultiplexedConnection, sha: &str, key: &str) {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(sha).arg(1).arg(key).arg(1);
    let _: Vec<i64> = cmd.query_async(connection).await.unwrap();
}

fn report(name: &str, start: Instant, server: &Server, before: [u64; 2]) -> u64 {
    let jobs = CALLERS * EACH;
    let rate = jobs * 1_000_000 / u64::try_from(start.elapsed().as_micros()).unwrap();
    let servers = (cpu_us(server) - before[0]) * 100 / jobs;
    let own = (own_cpu() - before[1]) * 10_000 * 100 / jobs;
    let (whole, cents) = (|us: u64| us / 100, |us: u64| us % 100);
    println!(
        "{name}: {rate}/s; CPU of a job: server {}.{:02} us, callers {}.{:02} us",
        whole(servers),
        cents(servers),
        whole(own),
        cents(own)
    );
    rate
}

async fn many_bare(server: &Server, is_apart: bool) -> u64 {
    let (connection, sha) = if is_apart { apart(server.port) } else { direct(server.port).await };
    let (before, start) = ([cpu_us(server), own_cpu()], Instant::now());
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (mut connection, sha) = (connection.clone(), sha.clone());
            tokio::spawn(async move {
                for _ in 0..EACH {
                    bare(&mut connection, &sha, &format!("rk1:{{{caller}}}:api.minute:f")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    report(if is_apart { "bare, apart" } else { "bare" }, start, server, before)
}

async fn many_linked(server: &Server) -> u64 {
    let link = link_with(endpoint(Topology::Standalone, &[server.port]), DECIDE);
    add(&link, &["a"], SECOND).await.unwrap();
    let (before, start) = ([cpu_us(server), own_cpu()], Instant::now());
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let link = link.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    add(&link, &[&format!("rk1:{{{caller}}}:api.minute:f")], SECOND).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rate = report("link", start, server, before);
    let counts = link.counts();
    println!("      {} jobs a command", counts.requests / counts.commands);
    rate
}

fn percentiles(name: &str, mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 1000];
    println!("{name}: p50 {} us, p99 {} us, p99.9 {} us", at(500) / 1000, at(990) / 1000, at(999) / 1000);
    at(990)
}

async fn lone(server: &Server, is_apart: bool) {
    let (mut connection, sha) = if is_apart { apart(server.port) } else { direct(server.port).await };
    let link = link_with(endpoint(Topology::Standalone, &[server.port]), DECIDE);
    add(&link, &["a"], SECOND).await.unwrap();
    let (mut plain, mut linked) = (Vec::new(), Vec::new());
    // By turns, so that whatever else the machine does meets both.
    for _ in 0..LONE {
        let start = Instant::now();
        bare(&mut connection, &sha, "a").await;
        plain.push(start.elapsed().as_nanos());
        let start = Instant::now();
        add(&link, &["a"], SECOND).await.unwrap();
        linked.push(start.elapsed().as_nanos());
    }
    let (plain, linked) = (percentiles("lone bare", plain), percentiles("lone link", linked));
    println!("p99 is {} % of bare", linked * 100 / plain);
}

#[tokio::test]
#[ignore = "measures: cargo test --release -p ratekeeper --features redis measure -- --ignored --nocapture"]
async fn measure_many() {
    let server = Server::start(&[]);
    for _ in 0..3 {
        let bare = [many_bare(&server, false).await, many_bare(&server, true).await];
        let linked = many_linked(&server).await;
        println!("{} % of bare, {} % of bare apart", linked * 100 / bare[0], linked * 100 / bare[1]);
    }
}

#[tokio::test]
#[ignore = "measures: cargo test --release -p ratekeeper --features redis measure -- --ignored --nocapture"]
async fn measure_lone() {
    let server = Server::start(&[]);
    for is_apart in [false, true] {
        println!(
            "{}",
            if is_apart { "connection on a thread of its own" } else { "connection on the caller's thread" }
        );
        lone(&server, is_apart).await;
    }
}
