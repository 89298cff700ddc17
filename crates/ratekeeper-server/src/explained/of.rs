//! Explanations of the policies with what their limits say now: looks, which write nothing.

use std::time::Duration;

use jiff::tz::TimeZone;
use ratekeeper_core::{Account, Check, Decision, Micros, Reason, StoreError, Verdict};
use ratekeeper_policy::{self as policy, Action, Does, Explanation, Fate, Match, Mode, PolicyLimit};

use super::{Applied, Client, Explained, Hop, Limit, Now, Override, Policy, SharedStore, State, words};
use crate::banner::in_numbers;
use crate::digits::millis;
use crate::live::{Live, Shared};

impl Explained {
    /// What `explanation` comes to now.
    ///
    /// # Errors
    /// If a store does not answer.
    pub(crate) async fn of(live: &Live, explanation: &Explanation<'_>) -> Result<Self, StoreError> {
        let (mut policies, mut is_refused) = (Vec::with_capacity(explanation.policies.len()), false);
        for part in &explanation.policies {
            let decision = match &part.fate {
                Fate::Applies { applied, .. } => look(live, applied).await?,
                _ => None,
            };
            let policy = told(live, explanation, part, decision.as_ref());
            let is_limited = decision.is_some_and(|decision| !decision.allowed);
            is_refused |= policy.applied.as_ref().is_some_and(|applied| {
                applied.mode == Mode::Enforce.name()
                    && (applied.action.as_deref() == Some(Action::Block.name()) || is_limited)
            });
            policies.push(policy);
        }
        let client = explanation.walk.as_ref().map(|walk| Client {
            ip: walk.client.map(|client| client.to_string()),
            why: walk.to_string(),
            hops: walk
                .hops
                .iter()
                .map(|hop| Hop { ip: hop.address.to_string(), trusted_proxy: hop.network })
                .collect(),
        });
        Ok(Self {
            allowed: explanation.error.is_none().then_some(!is_refused),
            error: explanation.error.as_ref().map(ToString::to_string),
            client,
            policies,
        })
    }
}

/// What the limits of a policy say now; `None` if none is asked.
async fn look(live: &Live, applied: &policy::Applied<'_>) -> Result<Option<Decision>, StoreError> {
    let checks: Vec<Check<'_>> = match applied.does {
        Does::Limits(_) => applied.checks().map(|(_, check)| check).collect(),
        Does::Action(_) => Vec::new(),
    };
    if checks.is_empty() {
        return Ok(None);
    }
    live.look(applied.policy, &checks, live.on_error(applied.policy)).await.map(Some)
}

fn told(
    live: &Live,
    explanation: &Explanation<'_>,
    part: &policy::Explained<'_>,
    decision: Option<&Decision>,
) -> Policy {
    let config = live.config();
    let policy = &config.policies[part.policy];
    let name_of = |index: usize| config.policies.get(index).map_or("", |policy| policy.name().as_str());
    let mut applied = None;
    let why = match &part.fate {
        Fate::Applies { applied: found, cost, left_out } => {
            applied =
                Some(Applied {
                    mode: found.mode.name().to_owned(),
                    action: match found.does {
                        Does::Action(action) => Some(action.name().to_owned()),
                        Does::Limits(_) => None,
                    },
                    key: found.key_text(&config.policies),
                    by_override: match (found.by_exception, found.by_override) {
                        // What was said for one key needs no other name than that key.
                        (Some(_), _) => Some(Override { key: None, line: None }),
                        (None, Some(place)) => policy.overrides().as_slice().get(place).map(|item| {
                            Override { key: Some(item.text().to_owned()), line: Some(item.line()) }
                        }),
                        (None, None) => None,
                    },
                    store: policy.store().to_string(),
                    shared_store: live.store_of(part.policy).shared().map(shared),
                    on_store_error: policy.options().on_store_error.name().to_owned(),
                    cost: found.cost,
                    cost_from: cost.to_string(),
                    limits: limits(live, found, left_out, decision),
                });
            match explanation.walk {
                Some(_) => policy.matches().unwrap_or_else(|| Match::any()).to_string(),
                None => "named by the caller".to_owned(),
            }
        }
        Fate::NoMatch(misfit) => misfit.to_string(),
        Fate::NoKey(missing) => missing.clone(),
        Fate::Off => "mode off".to_owned(),
        Fate::Grouped { group, by } => format!("{} goes first in group {group}", name_of(*by)),
        Fate::Replaced { by } => format!("{} takes its place", name_of(*by)),
        Fate::Wrong(wrong) => wrong.to_string(),
        _ => String::new(),
    };
    Policy {
        name: policy.name().to_string(),
        file: config.file().to_owned(),
        line: policy.line(),
        outcome: part.fate.name().to_owned(),
        why,
        applied,
    }
}

fn shared(store: &Shared) -> SharedStore {
    let status = store.status();
    SharedStore {
        kind: "redis".to_owned(),
        up: status.is_up,
        breaker_open: status.breaker_is_open,
        round_trip_us: status.round_trip.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
        state: store.told(),
    }
}

fn limits(
    live: &Live,
    applied: &policy::Applied<'_>,
    left_out: &[(usize, String)],
    decision: Option<&Decision>,
) -> Vec<Limit> {
    let Does::Limits(limits) = applied.does else { return Vec::new() };
    let checks: Vec<(usize, Check<'_>)> = applied.checks().collect();
    let verdicts = decision.map(|decision| decision.limits()).unwrap_or_default();
    let one = |(place, limit): (usize, &PolicyLimit)| {
        let verdict = checks.iter().position(|(other, _)| *other == place).and_then(|at| verdicts.get(at));
        let missing = left_out.iter().find(|(other, _)| *other == place).map(|(_, missing)| missing.as_str());
        let numbers = limit.named.limit();
        let mut told = Limit {
            name: limit.named.name().to_string(),
            algorithm: numbers.kind().name().to_owned(),
            limit: in_numbers(limit),
            key: applied.own_key_text(place, &live.config().policies),
            window_ms: millis(numbers.window()),
            capacity: numbers.capacity(),
            arithmetic: format!("not asked: {}", missing.unwrap_or_default()),
            now: None,
        };
        if verdict.is_some_and(|verdict| !verdict.has_numbers()) {
            // Whether that lets it pass stands at the policy: `on_store_error`.
            told.arithmetic = "not asked: the store does not answer".to_owned();
        } else if let Some(verdict) = verdict {
            let now = now(verdict);
            told.arithmetic = words::arithmetic(&told, &now, &TimeZone::UTC);
            told.now = Some(now);
        }
        told
    };
    limits.iter().enumerate().map(one).collect()
}

pub(super) fn now(verdict: &Verdict) -> Now {
    let (capacity, remaining) = (verdict.limit().capacity(), verdict.remaining());
    Now {
        at_ms: instant_ms(verdict.now()),
        allowed: verdict.allowed(),
        reason: verdict.reason().map(|reason: Reason| reason.name().to_owned()),
        cost: verdict.cost(),
        used: match verdict.account() {
            Some(Account::Fading { used, .. }) => used,
            _ => capacity.saturating_sub(remaining),
        },
        remaining,
        retry_after_ms: verdict.retry_after().map(millis),
        retry_at_ms: verdict
            .retry_after()
            .filter(|wait| !wait.is_zero())
            .map(|wait| instant_ms(verdict.now().saturating_add(wait))),
        reset_after_ms: millis(verdict.reset_after()),
        delay_ms: millis(verdict.delay()),
        state: verdict.account().and_then(state),
    }
}

fn state(account: Account) -> Option<State> {
    Some(match account {
        Account::Level { thousandths } => State::Level { level_thousandths: thousandths },
        Account::Line { waiting, start_after } => {
            State::Line { waiting, start_after_ms: millis(start_after) }
        }
        Account::Window { count, ends_after } => State::Window { count, ends_after_ms: millis(ends_after) },
        Account::Fading { previous, share, current, .. } => {
            State::Fading { previous, share_thousandths: share, current }
        }
        Account::Log { used, oldest, newest } => {
            State::Log { used, oldest_ms: oldest.map(instant_ms), newest_ms: newest.map(instant_ms) }
        }
        // Algorithms that this program does not know are none of its limits'.
        _ => return None,
    })
}

/// Milliseconds since the epoch, rounded up as waits are.
fn instant_ms(instant: Micros) -> u64 {
    millis(Duration::from_micros(instant.get()))
}
