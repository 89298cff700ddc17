use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::{ManualClock, MemoryStore, StoreObserver as _};
use ratekeeper_core::{Ask, Check, Decision, Micros, Name, Verdict};
use ratekeeper_policy::{Call, Config, Which};

use super::{Decided, Event, Format, Keys, Level, Loaded, Log, LogSettings, PolicyLog, Refused, Request};
use crate::live::Watch;
use crate::telemetry::secret::Secret;
use crate::telemetry::{Listener, Protocol};

const FILE: &str = "
version: 1
policies:
  - name: login
    key: [header:x-user]
    limits: [{ name: tries, algorithm: sliding-window-log, limit: 1 per 10m }]
  - name: address
    key: [ip]
    limits: [{ name: tries, algorithm: fixed-window, limit: 1/minute, align: first-request }]
  - name: jobs
    key: [global]
    limits: [{ name: start, algorithm: leaky-bucket, limit: 1/s, queue: 1 }]
";
/// 2026-01-01.
const START: u64 = 1_767_225_600_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// What was written, call by call.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<String>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").push(String::from_utf8(bytes.to_vec()).expect("UTF-8"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(message: &str) -> Refused<'_> {
    Refused { file: "f", sha: None, place: None, code: "unreadable", message }
}

struct World {
    config: Config,
    clock: ManualClock,
    store: MemoryStore,
    policies: Vec<PolicyLog>,
    sink: Sink,
    log: Log,
}

impl World {
    fn new(settings: LogSettings) -> Self {
        let config = Config::parse("ratekeeper.yaml", FILE.as_bytes(), &|_| None).expect("a good file");
        let clock = ManualClock::at(Micros::new(START));
        let store = MemoryStore::builder().max_keys(100).clock(&clock).build().expect("a store");
        let policies = config.policies.iter().map(|policy| PolicyLog::new(policy.name())).collect();
        let sink = Sink::default();
        let secret = Arc::new(Secret::new().expect("randomness"));
        let log = Log::to(Box::new(sink.clone()), settings, Arc::new(clock.clone()), secret);
        Self { config, clock, store, policies, sink, log: log.expect("a thread") }
    }

    /// Asks once and logs the answer.
    fn ask(&self, policy: usize, key: &str, cost: u64, path: Option<&str>) {
        let call = Call { key: Some(key), keys: &[], cost };
        let applied = self.config.policies[policy].named(&call, Which::All).expect("a good call");
        let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
        let decision = self.store.decide_now(&checks, Ask::Acquire).expect("memory answers");
        let request = Request {
            protocol: Protocol::Http,
            method: path.map(|_| "POST"),
            path,
            trace_id: path.map(|_| "4bf92f3577b34da6a3ce929d0e0e4736"),
        };
        let decided = Decided { checks: &checks, decision: &decision, mode: "enforce", request };
        self.log.decided(&self.policies[policy], &decided);
    }

    /// What was written since the last call, one entry for each write.
    fn written(&self) -> Vec<String> {
        self.log.flush(PATIENCE);
        std::mem::take(&mut self.sink.0.lock().expect("no panic"))
    }
}

fn settings(format: Format, keys: Keys) -> LogSettings {
    LogSettings { format, level: Level::Debug, keys, denied_per_second: 10 }
}

#[test]
fn lines_have_their_fields_in_the_documented_order() {
    let golden = |format| {
        let world = World::new(settings(format, Keys::Plain));
        let loaded = Loaded { file: "rate keeper.yaml", sha: "0123abc", policies: 3 };
        world.log.event(&Event::Config(loaded));
        world.log.event(&Event::Listen { listener: Listener::Http, address: "127.0.0.1:8080" });
        world.clock.advance(Duration::from_micros(1_500));
        world.ask(0, "u1", 1, None);
        world.ask(0, "u1", 1, Some("/v1/check"));
        world.ask(1, "::ffff:192.0.2.1", 2, None);
        world.ask(2, "", 1, None);
        world.ask(2, "", 1, None);
        world.log.event(&Event::Reload { loaded, message: None });
        world.log.event(&Event::Reload { loaded, message: Some("store `local` was resized") });
        let refused = Refused { file: "f", sha: None, place: None, code: "unreadable", message: "no\nfile" };
        world.log.event(&Event::ReloadFailed(refused));
        let refused = Refused {
            sha: Some("4567def"),
            place: Some((3, 9)),
            code: "wrong-type",
            message: "two words",
            ..refused
        };
        world.log.event(&Event::ReloadFailed(refused));
        world.log.event(&Event::Drain);
        world.written().concat()
    };
    assert_eq!(
        golden(Format::Text),
        r#"2026-01-01T00:00:00.000000Z info config file="rate keeper.yaml" sha=0123abc policies=3
2026-01-01T00:00:00.000000Z info listen listener=http address=127.0.0.1:8080
2026-01-01T00:00:00.001500Z info denied policy=login limit=tries key="header:x-user=u1" cost=1 remaining=0 retry_after_ms=600000 reason=limited mode=enforce source=exact protocol=http method=POST path=/v1/check trace_id=4bf92f3577b34da6a3ce929d0e0e4736
2026-01-01T00:00:00.001500Z info denied policy=address limit=tries key="ip=192.0.2.1" cost=2 remaining=1 reason=cost_exceeds_capacity mode=enforce source=exact protocol=http
2026-01-01T00:00:00.001500Z debug delayed policy=jobs limit=start key=global cost=1 remaining=0 delay_ms=1000 mode=enforce source=exact protocol=http
2026-01-01T00:00:00.001500Z info reload file="rate keeper.yaml" sha=0123abc policies=3
2026-01-01T00:00:00.001500Z warn reload file="rate keeper.yaml" sha=0123abc policies=3 message="store `local` was resized"
2026-01-01T00:00:00.001500Z error reload_failed file=f code=unreadable message="no\nfile"
2026-01-01T00:00:00.001500Z error reload_failed file=f sha=4567def line=3 column=9 code=wrong-type message="two words"
2026-01-01T00:00:00.001500Z info drain
"#
    );
    assert_eq!(
        golden(Format::Json),
        r#"{"ts":"2026-01-01T00:00:00.000000Z","level":"info","event":"config","file":"rate keeper.yaml","sha":"0123abc","policies":3}
{"ts":"2026-01-01T00:00:00.000000Z","level":"info","event":"listen","listener":"http","address":"127.0.0.1:8080"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"info","event":"denied","policy":"login","limit":"tries","key":"header:x-user=u1","cost":1,"remaining":0,"retry_after_ms":600000,"reason":"limited","mode":"enforce","source":"exact","protocol":"http","method":"POST","path":"/v1/check","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"info","event":"denied","policy":"address","limit":"tries","key":"ip=192.0.2.1","cost":2,"remaining":1,"reason":"cost_exceeds_capacity","mode":"enforce","source":"exact","protocol":"http"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"debug","event":"delayed","policy":"jobs","limit":"start","key":"global","cost":1,"remaining":0,"delay_ms":1000,"mode":"enforce","source":"exact","protocol":"http"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"info","event":"reload","file":"rate keeper.yaml","sha":"0123abc","policies":3}
{"ts":"2026-01-01T00:00:00.001500Z","level":"warn","event":"reload","file":"rate keeper.yaml","sha":"0123abc","policies":3,"message":"store `local` was resized"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"error","event":"reload_failed","file":"f","code":"unreadable","message":"no\nfile"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"error","event":"reload_failed","file":"f","sha":"4567def","line":3,"column":9,"code":"wrong-type","message":"two words"}
{"ts":"2026-01-01T00:00:00.001500Z","level":"info","event":"drain"}
"#
    );
}

#[test]
fn key_with_line_breaks_starts_no_record() {
    for format in [Format::Text, Format::Json] {
        let world = World::new(settings(format, Keys::Plain));
        let key = "x\r\n2026-01-01 INFO admitted key=admin";
        world.ask(0, key, 1, None);
        world.ask(0, key, 1, Some("/a\u{2028}b\u{1b}[2K\u{85}c"));
        let written = world.written();
        let [line] = written.as_slice() else { panic!("one write: {written:?}") };
        assert!(line.ends_with('\n'));
        assert_eq!(line.lines().count(), 1);
        assert!(line.contains(r"x\r\n2026-01-01 INFO admitted key=admin"), "{line}");
        assert!(line.contains(r"/a\u2028b\u001b[2K\u0085c"), "{line}");
        assert_eq!(line.matches(char::is_control).count(), 1, "its end");
    }
}

#[test]
fn denials_are_sampled_per_policy_and_the_next_line_says_how_many_were_dropped() {
    let world = World::new(LogSettings { denied_per_second: 3, ..settings(Format::Text, Keys::Off) });
    for _ in 0..21 {
        world.ask(0, "u1", 1, None);
    }
    // Another policy has its own share.
    world.ask(1, "192.0.2.1", 2, None);
    let written = world.written();
    assert_eq!(written.len(), 4);
    assert!(written.iter().all(|line| !line.contains("dropped")), "{written:?}");
    world.clock.advance(Duration::from_secs(1));
    world.ask(0, "u1", 1, None);
    world.ask(0, "u1", 1, None);
    let written = world.written();
    assert_eq!(written.len(), 2);
    assert!(written[0].ends_with(" protocol=http dropped=17\n"), "{written:?}");
    assert!(!written[1].contains("dropped"), "{written:?}");
}

#[test]
fn nothing_is_written_for_who_is_let_in_nor_below_the_level() {
    let world = World::new(LogSettings::default());
    world.ask(0, "u1", 1, None);
    world.ask(2, "", 1, None);
    world.ask(2, "", 1, None); // Delayed: that is for `debug`.
    assert_eq!(world.written(), [""; 0]);
    let quiet = World::new(LogSettings { level: Level::Warn, ..LogSettings::default() });
    quiet.ask(1, "192.0.2.1", 2, None);
    quiet.log.event(&Event::Drain);
    quiet.log.event(&Event::ReloadFailed(failed("no file")));
    assert_eq!(quiet.written().len(), 1);
    let loud = quiet.log.with(LogSettings::default());
    loud.event(&Event::Drain);
    assert_eq!(quiet.written().len(), 1, "to the same place");
}

/// The value of `key` in a line of text.
fn key(line: &str) -> &str {
    line.split(" key=").nth(1).and_then(|rest| rest.split(' ').next()).expect("it has a key")
}

#[test]
fn hashed_key_is_stable_in_a_process_and_never_its_text() {
    let settings = LogSettings::default();
    assert_eq!(settings.keys, Keys::Hash, "unless said otherwise");
    let (world, other) = (World::new(settings), World::new(settings));
    for world in [&world, &other] {
        for user in ["secret-u1", "secret-u2", "secret-u1"] {
            world.ask(0, user, 2, None);
        }
    }
    let (written, elsewhere) = (world.written(), other.written());
    assert_eq!(written.len(), 3);
    for line in &written {
        assert!(!line.contains("secret-u"), "{line}");
        let hash = key(line);
        assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
    }
    assert_eq!(key(&written[0]), key(&written[2]));
    assert_ne!(key(&written[0]), key(&written[1]));
    assert_ne!(key(&written[0]), key(&elsewhere[0]), "another process has another secret");
}

#[test]
fn key_that_is_off_is_nowhere() {
    let world = World::new(settings(Format::Json, Keys::Off));
    world.ask(0, "u1", 2, None);
    let written = world.written().concat();
    assert!(!written.contains("u1") && !written.contains("\"key\""), "{written}");
}

#[test]
fn longest_key_is_shown_whole() {
    let world = World::new(settings(Format::Text, Keys::Plain));
    let longest = "k".repeat(ratekeeper_core::MAX_KEY_BYTES);
    world.ask(0, &longest, 2, None);
    assert!(world.written().concat().contains(&format!("\"header:x-user={longest}\"")));
}

#[test]
fn log_without_lines_writes_nothing_and_flushes_at_once() {
    let secret = Arc::new(Secret::new().expect("randomness"));
    let settings = LogSettings { level: Level::Error, ..LogSettings::default() };
    let log = Log::new(settings, Arc::new(ManualClock::new()), secret).expect("a thread");
    log.event(&Event::Drain);
    log.flush(Duration::MAX);
}

#[test]
fn lines_that_found_no_place_are_counted_in_the_next() {
    let world = World::new(LogSettings { denied_per_second: u32::MAX, ..LogSettings::default() });
    const ASKED: u64 = 10_000;
    {
        // Whoever reads has stopped to.
        let _reader = world.sink.0.lock().expect("no panic");
        for _ in 0..ASKED {
            world.ask(1, "192.0.2.1", 2, None);
        }
        // A shorter line than a refusal might find room behind the last of them.
        world.log.event(&Event::ReloadFailed(failed(&"x".repeat(1_000))));
    }
    let written = u64::try_from(world.written().len()).expect("few");
    assert!(written < ASKED, "{written}");
    world.ask(1, "192.0.2.1", 2, None);
    world.log.event(&Event::Drain);
    let lines = world.written();
    assert!(lines[0].ends_with(&format!(" dropped={}\n", ASKED - written)), "{lines:?}");
    assert!(lines[1].ends_with(" drain dropped=1\n"), "{lines:?}");
}

#[test]
fn a_store_that_is_away_is_told_once_a_change_and_who_passes_by_samples() {
    let world = World::new(LogSettings { denied_per_second: 2, ..settings(Format::Text, Keys::Off) });
    let watch = Watch::new(&Name::new("shared").expect("a name"), Some(&world.log));
    for _ in 0..3 {
        watch.went_down("connection refused");
    }
    let call = Call { key: Some("u1"), keys: &[], cost: 1 };
    let applied = world.config.policies[0].named(&call, Which::All).expect("a good call");
    let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
    let request = Request { protocol: Protocol::Http, method: None, path: None, trace_id: None };
    let limit = checks[0].limit.limit();
    let open = Decision::of(vec![Verdict::failed_open(limit, 1)]);
    for _ in 0..5 {
        let decided = Decided { checks: &checks, decision: &open, mode: "enforce", request };
        world.log.decided(&world.policies[0], &decided);
    }
    let closed = Decision::of(vec![Verdict::failed_closed(limit, 1, Duration::from_secs(2))]);
    let decided = Decided { checks: &checks, decision: &closed, mode: "enforce", request };
    world.log.decided(&world.policies[0], &decided);
    watch.came_back(Duration::from_millis(1_500));
    watch.came_back(Duration::from_millis(1_500));
    let lines = world.written().concat();
    let lines: Vec<&str> = lines.lines().map(|line| line.split_once(' ').expect("an instant").1).collect();
    let open =
        "warn failed_open policy=login limit=tries cost=1 mode=enforce source=failed_open protocol=http";
    assert_eq!(
        lines,
        [
            "warn store_down store=shared message=\"connection refused\"",
            open,
            open,
            "info denied policy=login limit=tries cost=1 retry_after_ms=2000 reason=store_unavailable \
             mode=enforce source=failed_closed protocol=http",
            "info store_up store=shared after_ms=1500",
        ]
    );
}
