//! What it costs to find the policies of a request among one and among a thousand, and to plan what they do, with
//! keys, costs and a thousand overrides.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin matching -- [--rounds N]` prints medians of rounds in which
//! the cases take turns, and how many times as long a thousand policies take. It ends with 1 if that is more
//! than three times.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratekeeper_policy::{Config, Facts, Index, Match, Policy, Request as Asked, Seen, Source};

/// A thousand policies: one for all requests, and these of each kind.
const KINDS: u64 = 333;
const REQUESTS: usize = 4_096;
/// How often a sample goes through all requests.
const TIMES: usize = 20;
const ROUNDS: usize = 21;
/// How many times as long a thousand policies may take.
const TARGET: f64 = 3.0;

const USAGE: &str = "usage: matching [--rounds N]";

type Failed = Box<dyn std::error::Error>;

fn policy(file: &mut String, name: &str, conditions: &str) -> Result<(), Failed> {
    writeln!(
        file,
        "  - {{ name: {name}, match: {{ {conditions} }}, key: [ip], limits: [{{ name: l, algorithm: gcra, limit: 10/s }}] }}"
    )?;
    Ok(())
}

fn config(kinds: u64) -> Result<Config, Failed> {
    let mut file = String::from("version: 1\npolicies:\n");
    writeln!(
        file,
        "  - name: all\n    match: {{ path: \"/api/**\" }}\n    key: [header:x-api-key, ip]\n    limits: [{{ name: l, algorithm: gcra, limit: 10/s }}]"
    )?;
    if kinds > 0 {
        writeln!(file, "    overrides:")?;
    }
    // A thousand of three kinds in turn; none of them fits, so that all kinds are looked for.
    for i in 0..3 * kinds {
        let key = match i % 3 {
            0 => format!("customer-{i}"),
            1 => format!("\"partner-{i}-*\""),
            _ => format!("10.{}.{}.0/24", i / 256, i % 256),
        };
        writeln!(file, "      - {{ key: {key}, limits: {{ l: 20/s }} }}")?;
    }
    for i in 0..kinds {
        let (third, host) = (i / 3, format!("host: tenant{i}.example"));
        policy(&mut file, &format!("exact-{i}"), &format!("method: POST, path: /api/v1/service{i}/login"))?;
        policy(&mut file, &format!("host-{i}"), &format!(r#"{host}, path: "/api/v1/**""#))?;
        let below = match i % 3 {
            0 => format!(r#"path: "/api/v1/service{third}/**""#),
            1 => format!(r#"method: [GET, HEAD], path: "/api/v1/service{third}/**""#),
            _ => format!(r#"path: "/api/v1/service{third}/{{id}}/items", headers: {{ x-plan: "free-*" }}"#),
        };
        policy(&mut file, &format!("below-{i}"), &below)?;
    }
    Config::parse("matching.yaml", file.as_bytes(), &|_| None).map_err(|errors| errors.render().into())
}

/// A request as it came.
struct Request {
    method: &'static str,
    target: String,
    host: String,
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn requests() -> Vec<Request> {
    let mut state = 7;
    let mut draw = |below: u64| random(&mut state) % below;
    let one = |_| {
        let service = draw(KINDS);
        let (method, target) = match draw(3) {
            0 => ("POST", format!("/api/v1/service{service}/login")),
            1 => ("GET", format!("/api/v1/service{service}/{}/items?page={}", draw(100_000), draw(10))),
            _ => ("PUT", format!("/api/v1/service{service}/settings/")),
        };
        Request { method, target, host: format!("tenant{}.example:8080", draw(2 * KINDS)) }
    };
    (0..REQUESTS).map(one).collect()
}

const HEADERS: [(&str, &[u8]); 7] = [
    ("x-api-key", b"customer-of-nobody"),
    ("user-agent", b"curl/8.5.0"),
    ("accept", b"*/*"),
    ("accept-encoding", b"gzip"),
    ("x-plan", b"free-2024"),
    ("x-request-id", b"7d9f2c1a"),
    ("content-length", b"0"),
];

fn facts(request: &Request) -> Facts<'_> {
    Facts {
        method: Some(request.method),
        target: Some(&request.target),
        host: Some(&request.host),
        headers: &HEADERS,
        source: Source::Client(CLIENT),
    }
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

struct Case<'a> {
    name: &'static str,
    /// How many policies fit.
    find: Box<dyn Fn(&Facts<'_>) -> usize + 'a>,
    samples: Vec<f64>,
    fitting: usize,
}

/// How long this thread has waited for a CPU so far, where the system says so.
fn waited() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(times.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// Nanoseconds per request, without the time in which another program had the CPU.
fn sample(case: &mut Case<'_>, requests: &[Request], times: usize) -> f64 {
    let (waited_before, started) = (waited(), Instant::now());
    let mut fitting = 0;
    for request in (0..times).flat_map(|_| requests) {
        fitting += (case.find)(black_box(&facts(request)));
    }
    let took = started.elapsed().saturating_sub(waited().saturating_sub(waited_before));
    case.fitting = fitting / times;
    took.as_nanos() as f64 / (times * requests.len()) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn matches(config: &Config) -> Vec<&Match> {
    config.policies.iter().map(Policy::matches).map(|found| found.unwrap_or(Match::any())).collect()
}

fn run(mut args: impl Iterator<Item = String>) -> Result<bool, Failed> {
    let mut rounds = ROUNDS;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().ok_or(USAGE)?.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let (one, thousand) = (config(0)?, config(KINDS)?);
    let planned = |config: &Config, facts: &Facts<'_>| {
        let Ok(request) = Asked::new(facts, &config.client_ip) else { return 0 };
        config.policies.plan(&request, None).map_or(0, |plan| plan.applied().len())
    };
    let (plan_one, plan_all) = (&one, &thousand);
    let (one, thousand) = (matches(&one), matches(&thousand));
    let index = |policies: &[&Match]| Index::new(policies.iter().copied());
    let (index_of_one, index_of_all) = (index(&one), index(&thousand));
    let indexed = |facts: &Facts<'_>, policies: &[&Match], index: &Index| {
        let Ok(seen) = Seen::new(facts) else { return 0 };
        index
            .candidates(&seen)
            .filter(|i| policies.get(*i).is_some_and(|one| one.fits(&seen).is_ok()))
            .count()
    };
    let each = |facts: &Facts<'_>| {
        Seen::new(facts).map_or(0, |seen| thousand.iter().filter(|one| one.fits(&seen).is_ok()).count())
    };
    let case = |name, find| Case { name, find, samples: Vec::new(), fitting: 0 };
    let mut cases = [
        case(
            "the request alone, its path made normal",
            Box::new(|facts: &Facts<'_>| usize::from(Seen::new(facts).is_ok())),
        ),
        case("among 1 policy", Box::new(|facts| indexed(facts, &one, &index_of_one))),
        case("among 1,000", Box::new(|facts| indexed(facts, &thousand, &index_of_all))),
        case("among 1,000, each asked", Box::new(each)),
        case("planned by 1 policy", Box::new(|facts| planned(plan_one, facts))),
        case(
            "planned by 1,000, of which one has 1,000 overrides",
            Box::new(|facts| planned(plan_all, facts)),
        ),
    ];
    let requests = requests();
    for round in 0..=rounds {
        for case in &mut cases {
            let times = if case.name.ends_with("asked") { 1 } else { TIMES };
            let ns = sample(case, &requests, times);
            // The first round warms up.
            if round > 0 {
                case.samples.push(ns);
            }
        }
    }
    let [alone, one, thousand, each, plan_one, plan_all] = &cases;
    if thousand.fitting != each.fitting {
        return Err("the index misses policies that fit".into());
    }
    println!("| ns per request, median of {rounds} rounds | ns | policies that fit |\n|---|---|---|");
    println!("| {} | {:.0} | – |", alone.name, median(alone.samples.clone()));
    for case in [one, thousand, each, plan_one, plan_all] {
        let fitting = case.fitting as f64 / REQUESTS as f64;
        println!("| {} | {:.0} | {fitting:.2} |", case.name, median(case.samples.clone()));
    }
    let ratio = |all: &Case<'_>, one: &Case<'_>| {
        median(all.samples.iter().zip(&one.samples).map(|(all, one)| all / one).collect())
    };
    let (found, planned) = (ratio(thousand, one), ratio(plan_all, plan_one));
    println!(
        "\nfound among 1,000 ÷ among 1: {found:.2}; planned: {planned:.2} (target: at most {TARGET:.0})"
    );
    Ok(found <= TARGET && planned <= TARGET)
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
