//! Whether the server runs and is ready, and what it is at work with.

use crate::app::App;
use crate::live::Live;
use crate::telemetry::log::instant;
use crate::transport::http::answer::JSON;
use crate::transport::http::reply::Reply;

/// Who reads an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// Anybody: texts of the file may be keys of customers.
    Anybody,
    /// Whoever may read the file.
    Operator,
}

/// The policies as the file says them, and which file that was. Not everybody reads whose overrides there are.
pub(crate) fn policies(live: &Live, reader: Reader, reply: &mut Reply) {
    reply.begin(200, JSON);
    let config = live.config();
    let policies = match reader {
        Reader::Anybody => config.policies_json_public(),
        Reader::Operator => config.policies_json(),
    };
    let text = format!("{{\"sha\":\"{}\",\"policies\":{policies}}}", config.source_sha());
    reply.body.extend_from_slice(text.as_bytes());
}

/// The query that asks a probe for more than a word.
pub(crate) const VERBOSE: &str = "verbose";

/// Whether the process runs, and for `/readyz` whether it is not about to end, and whether all its stores answer: one
/// that does not makes it no less ready, since `on_store_error` decides then. With `?verbose` also what it is at work
/// with.
pub(crate) fn probe(app: &App, path: &str, query: Option<&str>, reader: Reader, reply: &mut Reply) {
    let asks_ready = path == "/readyz";
    let ends = asks_ready && app.is_draining();
    let live = app.live();
    let is_degraded = asks_ready && live.shared_stores().any(|(_, store)| !store.status().is_up);
    reply.begin(if ends { 503 } else { 200 }, "text/plain; charset=utf-8");
    if asks_ready && query == Some(VERBOSE) {
        let word = match (ends, is_degraded) {
            (true, _) => "draining",
            (false, true) => "degraded",
            (false, false) => "ready",
        };
        reply.body.extend_from_slice(state(app, &live, word, reader).as_bytes());
    } else {
        reply.body.extend_from_slice(match (ends, is_degraded) {
            (true, _) => b"draining\n",
            (false, true) => b"degraded\n",
            (false, false) => b"ok\n",
        });
    }
    if ends {
        reply.number("retry-after", 1);
    }
}

/// Whether requests are taken, by which configuration, how its shared stores are, and what has become of the last
/// reload if it failed.
fn state(app: &App, live: &Live, word: &str, reader: Reader) -> String {
    let (sha, since) = (live.config().source_sha(), instant(live.since()));
    let mut text = format!("{word}\nconfiguration {sha} since {since}\n");
    for (name, store) in live.shared_stores() {
        let status = store.status();
        let word = if status.is_up { "up" } else { "down" };
        text.push_str(&format!("store {name} {word}"));
        // Where it is and what it says is nobody's affair who only looks whether we are ready.
        if reader == Reader::Operator {
            text.push_str(&format!(": {}", store.told()));
        }
        text.push('\n');
    }
    if let Some(refused) = app.refused() {
        text.push_str(&format!("last reload failed at {}\n", instant(refused.at)));
        let lines = match reader {
            Reader::Anybody => &refused.places,
            Reader::Operator => &refused.lines,
        };
        for line in lines {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}
