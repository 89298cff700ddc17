use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{ManualClock, MemoryStore, StoreCounts, StoreStatus};
use ratekeeper_core::{Ask, Check, Decision, Micros, Name, Source};
use ratekeeper_policy::{Call, Config, Which};

use super::exposition::{Exposition, SharedSnapshot, Snapshot, StoreSnapshot};
use super::{CODES, Metrics};
use crate::live::Watch;
use crate::telemetry::{Listener, Protocol};
use parser::{Page, Series};

mod parser;

const FILE: &str = "
version: 1
policies:
  - name: api
    key: [header:x-api-key]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: global, algorithm: gcra, limit: 1000/minute, key: [global] }
  - name: jobs
    key: [ip]
    limits: [{ name: start, algorithm: leaky-bucket, limit: 1/s, queue: 10 }]
";

fn config(text: &str) -> Config {
    Config::parse("ratekeeper.yaml", text.as_bytes(), &|_| None).expect("a good file")
}

fn store(clock: &ManualClock) -> MemoryStore {
    sized(1_000_000, clock)
}

fn sized(max_keys: u64, clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(max_keys).clock(clock.clone()).build().expect("a store")
}

fn decide(config: &Config, store: &MemoryStore, policy: &str, key: &str) -> Decision {
    let policy = config.policy(policy).expect("it is in the file");
    let call = Call { key: Some(key), keys: &[], cost: 1 };
    let applied = policy.named(&call, Which::All).expect("a good call");
    let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
    store.decide_now(&checks, Ask::Acquire).expect("memory answers")
}

fn count(policy: Option<&super::PolicyMetrics>, decision: &Decision) {
    policy.expect("a policy of the file").decided(decision, Some(decision.binding));
}

fn page(metrics: &Metrics) -> Page {
    page_with(metrics, Vec::new())
}

/// The same with further stores behind one in memory.
fn page_with(metrics: &Metrics, further: Vec<StoreSnapshot>) -> Page {
    let first = StoreSnapshot { keys: 3, overflow_decisions: 4, shared: None };
    let snapshot = Snapshot {
        stores: std::iter::once(first).chain(further).collect(),
        clock_offset_us: -1_500_000,
        holds: 5,
        overrides: 6,
    };
    let page = Page::parse(&metrics.encode(Exposition::OpenMetrics, snapshot.clone()), true);
    let classic = Page::parse(&metrics.encode(Exposition::Prometheus, snapshot), false);
    // `process_*` moves between two readings; nothing else may.
    let still = |page: &Page| -> Vec<(Series, String)> {
        page.samples.iter().filter(|(series, _)| !series.name.starts_with("process_")).cloned().collect()
    };
    assert!(still(&page) == still(&classic), "both formats say the same:\n{}\n{}", page.text, classic.text);
    page
}

/// A file with a shared store besides, and what is known of that.
fn shared() -> (Config, StoreSnapshot) {
    let stores =
        "stores:\n  local: { memory: { max_keys: 10 } }\n  shared: { redis: { url: 'redis://127.0.0.1' } }\n";
    let file = FILE.replace("policies:", &format!("defaults: {{ store: local }}\n{stores}policies:"));
    let file = file.replace("key: [ip]\n", "key: [ip]\n    store: shared\n");
    let watch = Arc::new(Watch::new(&Name::new("shared").expect("a name"), None));
    let shared = SharedSnapshot { status: StoreStatus::default(), counts: StoreCounts::default(), watch };
    (config(&file), StoreSnapshot { shared: Some(shared), ..StoreSnapshot::default() })
}

fn series(page: &Page) -> BTreeSet<Series> {
    page.samples.iter().map(|(series, _)| series.clone()).collect()
}

#[test]
fn series_do_not_grow_with_keys() {
    let (config, clock) = (config(FILE), ManualClock::at(Micros::new(1_000_000)));
    let (metrics, store) = (Metrics::new(&config, Micros::ZERO), store(&clock));
    let before = page(&metrics);
    const DECISIONS: u64 = 1_000_000;
    for i in 0..DECISIONS {
        clock.advance(Duration::from_micros(7));
        let (index, name) = if i % 2 == 0 { (0, "api") } else { (1, "jobs") };
        let decision = decide(&config, &store, name, &format!("nobody-else-{i}"));
        count(metrics.policy(index), &decision);
        metrics.decision_took(0, Duration::from_nanos(i));
        metrics.answered(Protocol::Http, u16::try_from(i % 1_000).expect("small"));
    }
    let after = page(&metrics);
    assert_eq!(series(&before), series(&after));
    assert!(!after.text.contains("nobody-else"), "no key is a label");
    for (name, sum) in [
        ("ratekeeper_decisions_total", DECISIONS),
        ("ratekeeper_decision_source_total", DECISIONS),
        ("ratekeeper_decision_duration_seconds_count", DECISIONS),
        ("ratekeeper_requests_total", DECISIONS),
    ] {
        assert_eq!(before.sum(name), 0, "{name} starts at 0");
        assert_eq!(after.sum(name), sum, "{name}");
    }
}

#[test]
fn number_of_series_follows_from_the_configuration() {
    // As docs/metrics.md has it.
    let expected = |limits: usize, queue_limits: usize, policies: usize, queues: usize, stores: usize| {
        let of_limits = 3 * limits + queue_limits;
        let of_policies = 5 * policies + 14 * queues;
        let of_stores = 20 * stores;
        of_limits + of_policies + of_stores + (CODES.len() + 1) + 2 + 7
    };
    let count = |text: &str| {
        let page = page(&Metrics::new(&config(text), Micros::ZERO));
        page.samples.iter().filter(|(series, _)| !series.name.starts_with("process_")).count()
    };
    assert_eq!(count("version: 1"), expected(0, 0, 0, 0, 1));
    assert_eq!(count(FILE), expected(3, 1, 2, 1, 1));
    let two_stores = format!(
        "{}\nstores: {{ a: {{ memory: {{ max_keys: 10 }} }}, b: {{ memory: {{ max_keys: 10 }} }} }}\n\
         defaults: {{ store: b }}",
        FILE.trim_end()
    );
    assert_eq!(count(&two_stores), expected(3, 1, 2, 1, 2));
    let (config, store) = shared();
    let page = page_with(&Metrics::new(&config, Micros::ZERO), vec![store]);
    let count = page.samples.iter().filter(|(series, _)| !series.name.starts_with("process_")).count();
    // One policy lies on the shared store.
    assert_eq!(count, expected(3, 1, 2, 1, 1) + 66 + 4);
}

#[test]
fn documentation_has_exactly_these_names_with_their_labels() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
    let table = table.expect("docs/metrics.md is there");
    let words =
        |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let documented: BTreeSet<(String, BTreeSet<String>)> = table
        .lines()
        .filter(|line| line.starts_with("| `ratekeeper_") || line.starts_with("| `process_"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            let name = words(cells[1]).pop_first().expect("a name");
            (name, words(cells[3]))
        })
        .collect();
    let mut exposed = BTreeSet::new();
    let (config, store) = shared();
    for (series, _) in &page_with(&Metrics::new(&config, Micros::ZERO), vec![store]).samples {
        let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| series.name.strip_suffix(end));
        let labels = series.labels.iter().map(|(name, _)| name.clone()).filter(|name| name != "le");
        exposed.insert((name.unwrap_or(&series.name).to_owned(), labels.collect::<BTreeSet<_>>()));
    }
    let is_linux = cfg!(target_os = "linux");
    let expected = documented.into_iter().filter(|(name, _)| is_linux || !name.starts_with("process_"));
    assert_eq!(exposed, expected.collect());
}

#[test]
fn decision_is_counted_once_under_its_binding_limit() {
    let (config, clock) = (config(FILE), ManualClock::at(Micros::new(1_000_000)));
    let (metrics, store) = (Metrics::new(&config, Micros::ZERO), store(&clock));
    let api = metrics.policy(0).expect("api");
    for _ in 0..23 {
        count(Some(api), &decide(&config, &store, "api", "k"));
    }
    let jobs = metrics.policy(1).expect("jobs");
    for _ in 0..13 {
        count(Some(jobs), &decide(&config, &store, "jobs", "k"));
    }
    let page = page(&metrics);
    for (labels, value) in [
        ("decision=allowed,limit=burst,policy=api", "20"),
        ("decision=denied,limit=burst,policy=api", "3"),
        ("decision=allowed,limit=global,policy=api", "0"),
        ("decision=denied,limit=global,policy=api", "0"),
        ("decision=allowed,limit=start,policy=jobs", "1"),
        ("decision=delayed,limit=start,policy=jobs", "10"),
        ("decision=denied,limit=start,policy=jobs", "2"),
    ] {
        assert_eq!(page.value("ratekeeper_decisions_total", labels), value, "{labels}");
    }
    assert!(!page.has("ratekeeper_decisions_total", "decision=delayed,limit=burst,policy=api"));
    assert_eq!(page.value("ratekeeper_decision_source_total", "policy=api,source=exact"), "23");
    // 0 and 1 s to 10 s.
    assert_eq!(page.value("ratekeeper_delay_seconds_count", "policy=jobs"), "11");
    assert_eq!(page.value("ratekeeper_delay_seconds_sum", "policy=jobs"), "55.0");
    assert_eq!(page.value("ratekeeper_delay_seconds_bucket", "le=1,policy=jobs"), "2");
    assert!(!page.has("ratekeeper_delay_seconds_count", "policy=api"));
}

#[test]
fn answers_on_shared_state_are_counted_apart() {
    let (config, clock) = (config(FILE), ManualClock::at(Micros::new(1_000_000)));
    let (metrics, store) = (Metrics::new(&config, Micros::ZERO), sized(1, &clock));
    let mut shared = 0;
    for i in 0..1_000 {
        let decision = decide(&config, &store, "api", &format!("k{i}"));
        shared += u64::from(decision.source == Source::Overflow);
        count(metrics.policy(0), &decision);
    }
    assert!(shared > 0);
    let page = page(&metrics);
    let source =
        |name: &str| page.value("ratekeeper_decision_source_total", &format!("policy=api,source={name}"));
    assert_eq!((source("overflow"), source("exact")), (shared.to_string(), (1_000 - shared).to_string()));
}

#[test]
fn what_the_caller_knows_is_shown_as_it_is() {
    let metrics = Metrics::new(&config(FILE), Micros::new(1_700_000_000_250_000));
    let connection = metrics.connected(Listener::Http);
    drop(metrics.connected(Listener::Http));
    for status in [200, 404, 418, 599, 0] {
        metrics.answered(Protocol::Http, status);
    }
    // No configuration has them: nothing to count, and nothing to stumble over.
    assert!(metrics.policy(2).is_none());
    metrics.decision_took(7, Duration::ZERO);
    let page = page(&metrics);
    for (name, labels, value) in [
        ("ratekeeper_keys", "store=local", "3"),
        ("ratekeeper_overflow_decisions_total", "store=local", "4"),
        ("ratekeeper_store_up", "store=local", "1"),
        ("ratekeeper_holds", "", "5"),
        ("ratekeeper_overrides", "", "6"),
        ("ratekeeper_clock_offset_seconds", "", "-1.5"),
        ("ratekeeper_connections", "listener=http", "1"),
        ("ratekeeper_connections", "listener=admin", "0"),
        ("ratekeeper_requests_total", "code=200,protocol=http", "1"),
        ("ratekeeper_requests_total", "code=404,protocol=http", "1"),
        ("ratekeeper_requests_total", "code=429,protocol=http", "0"),
        ("ratekeeper_requests_total", "code=other,protocol=http", "3"),
        ("ratekeeper_config_last_reload_success", "", "1"),
        ("ratekeeper_config_last_reload_timestamp_seconds", "", "1700000000.25"),
        ("ratekeeper_config_info", &format!("sha={}", config(FILE).source_sha()), "1"),
    ] {
        assert_eq!(page.value(name, labels), value, "{name}");
    }
    drop(connection);
}

#[test]
fn reload_keeps_counting_what_both_configurations_have() {
    let (old, clock) = (config(FILE), ManualClock::at(Micros::new(1_000_000)));
    let (metrics, store) = (Metrics::new(&old, Micros::ZERO), store(&clock));
    count(metrics.policy(0), &decide(&old, &store, "api", "k"));
    metrics.decision_took(0, Duration::from_micros(1));
    metrics.answered(Protocol::Http, 200);
    metrics.reload_failed();
    assert_eq!(page(&metrics).value("ratekeeper_config_last_reload_success", ""), "0");

    let text = FILE.replace("name: jobs", "name: work").replace("name: global", "name: everybody");
    let new = metrics.reloaded(&config(&text));
    new.reload_succeeded(Micros::new(5_000_000));
    // A request that was under way with the old configuration.
    count(metrics.policy(0), &decide(&old, &store, "api", "k"));
    let page = page(&new);
    let decisions = "ratekeeper_decisions_total";
    assert_eq!(page.value(decisions, "decision=allowed,limit=burst,policy=api"), "2");
    assert_eq!(page.value(decisions, "decision=allowed,limit=everybody,policy=api"), "0");
    assert!(!page.has(decisions, "decision=allowed,limit=global,policy=api"));
    assert!(!page.has(decisions, "decision=allowed,limit=start,policy=jobs"));
    assert_eq!(page.value("ratekeeper_decision_source_total", "policy=api,source=exact"), "2");
    assert_eq!(page.value("ratekeeper_decision_duration_seconds_count", "store=local"), "1");
    assert_eq!(page.value("ratekeeper_requests_total", "code=200,protocol=http"), "1");
    assert_eq!(page.value("ratekeeper_config_last_reload_success", ""), "1");
    assert_eq!(page.value("ratekeeper_config_last_reload_timestamp_seconds", ""), "5.0");
}

#[test]
fn reader_gets_the_format_it_asks_for() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
    assert_eq!(Exposition::accepted(Some(prometheus)), Exposition::OpenMetrics);
    assert_eq!(Exposition::accepted(Some("*/*")), Exposition::Prometheus);
    assert_eq!(Exposition::accepted(None), Exposition::Prometheus);
    for format in [Exposition::OpenMetrics, Exposition::Prometheus] {
        assert!(format.content_type().contains("charset=utf-8"));
    }
}
