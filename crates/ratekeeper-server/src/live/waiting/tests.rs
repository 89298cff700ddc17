//! What begins with shared stores: probes, pages, reloads.

use std::sync::Arc;

use ratekeeper_policy::Config;

use super::super::fake::Fake;
use crate::app::App;
use crate::telemetry::metrics::exposition::Exposition;

const FILE: &str = "
version: 1
stores: { shared: { redis: { url: 'redis://127.0.0.1:1' } } }
policies:
  - { name: s, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
";

#[tokio::test]
async fn a_store_that_answers_and_cannot_serve_stops_the_start() {
    let app = |fake: Fake| App::with_fakes(FILE, &[("shared", Arc::new(fake))]);
    let good = app(Fake::default());
    assert_eq!(good.live_for_long().probe(None).await, Ok(Vec::new()));
    let bad = app(Fake::that_cannot_serve("the version is 5.0"));
    assert_eq!(bad.live_for_long().probe(None).await, Err("store `shared`: the version is 5.0".to_owned()));
    let away = Fake::default();
    away.be_down(true);
    let away = app(away);
    assert_eq!(away.live_for_long().probe(None).await, Ok(Vec::new()), "it may answer yet");
}

#[test]
fn a_reload_keeps_the_store_whose_configuration_stays() {
    let config = |text: &str| Config::parse("t", text.as_bytes(), &|_| None).expect("a good file");
    let app = App::new(config(FILE)).expect("stores");
    let before = app.live_for_long();
    let same = app.reload(config(&FILE.replace("1/day", "2/day"))).expect("a good file");
    assert!(same.is_empty(), "{same:?}");
    let now = app.live_for_long();
    assert!(!now.has_new_stores(Some(&before)));
    let other = FILE.replace(" } } }", ", timeout: 20ms } } }");
    assert!(app.reload(config(&other)).expect("a good file").is_empty(), "the counts are where they were");
    assert!(app.live_for_long().has_new_stores(Some(&now)));
    let elsewhere = app.reload(config(&FILE.replace(":1'", ":2'"))).expect("a good file");
    assert_eq!(elsewhere, ["store `shared` has another `url` or `prefix`: its counts begin anew"]);
    let memory = FILE.replace("redis: { url: 'redis://127.0.0.1:1' }", "memory: { max_keys: 10 }");
    let notes = app.reload(config(&memory)).expect("a good file");
    assert_eq!(notes, ["store `shared` is of another kind: its counts begin anew"]);
}

#[test]
fn the_page_of_metrics_shows_how_a_shared_store_is() {
    let fake = Arc::new(Fake::default());
    let app = App::with_fakes(FILE, &[("shared", Arc::clone(&fake))]);
    let page = || {
        let live = app.live_for_long();
        live.metrics().encode(Exposition::Prometheus, app.snapshot(&live))
    };
    assert!(page().contains("ratekeeper_store_up{store=\"shared\"} 1\n"));
    fake.be_down(true);
    let page = page();
    for line in [
        "ratekeeper_store_up{store=\"shared\"} 0\n",
        "ratekeeper_store_breaker_open{store=\"shared\"} 0\n",
        "ratekeeper_store_errors_total{store=\"shared\",kind=\"timeout\"} 0\n",
        "ratekeeper_undo_total{store=\"shared\",result=\"failed\"} 0\n",
        "ratekeeper_script_reloads_total{store=\"shared\"} 0\n",
        "ratekeeper_store_operation_duration_seconds_count{store=\"shared\",op=\"decide\"} 0\n",
        "ratekeeper_decision_source_total{policy=\"s\",source=\"failed_closed\"} 0\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    assert!(!page.contains("ratekeeper_keys{"), "nobody counts the keys of a shared store");
}
