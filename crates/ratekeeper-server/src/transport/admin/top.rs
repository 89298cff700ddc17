//! `GET /v1/top`: who was refused most in the last minutes.

use ratekeeper_sim::hints::quoted;
use serde::Serialize;

use crate::live::Live;
use crate::transport::http::{JSON, Problem, Reply};

/// How many are shown if nobody says how many.
const USUAL: usize = 20;
/// The most that are shown: as many as are counted at once, in both halves.
const MOST: usize = 2 * crate::telemetry::sketch::COUNTERS;

#[derive(Serialize)]
struct TopAnswer<'a> {
    window_s: u64,
    missed: u64,
    denied: Vec<DeniedAnswer<'a>>,
}

#[derive(Serialize)]
struct DeniedAnswer<'a> {
    policy: &'a str,
    limit: Option<&'a str>,
    key: &'a str,
    count: u64,
    error: u64,
}

/// Shows them, as many as the query wants.
pub(super) fn show(live: &Live, query: Option<&str>, reply: &mut Reply) -> Result<(), Problem> {
    let most = match query {
        None => USUAL,
        Some(query) => {
            let number = query.strip_prefix("limit=").and_then(|text| text.parse().ok());
            let unknown = || {
                let known = format!("only `limit=N` is known, from 1 to {MOST}, not {}", quoted(query));
                Problem::unknown_query(query, &known)
            };
            number.filter(|number| (1..=MOST).contains(number)).ok_or_else(unknown)?
        }
    };
    let top = live.log().top(most);
    let denied = top.denied.iter().map(|denied| DeniedAnswer {
        policy: denied.policy.as_str(),
        limit: denied.limit.as_ref().map(ratekeeper_core::Name::as_str),
        key: &denied.key,
        count: denied.count,
        error: denied.error,
    });
    let (window_s, missed) = (top.window.as_secs(), top.missed);
    reply.begin(200, JSON);
    reply.json(&TopAnswer { window_s, missed, denied: denied.collect() });
    Ok(())
}
