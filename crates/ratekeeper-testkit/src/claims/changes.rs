//! Another limit for a key that is in use.

use super::failure;
use crate::generate::{Move, Op, Played, Run, Turn, horizon_us, play};
use crate::oracle::{Admitted, Align, Rule, Subject, theorem};

/// P14: when a limit is changed for another of its kind, used units stay used, at most the new capacity. What can be
/// had at once grows by no more than the capacity does; a cut locks for no longer than the new limit takes to
/// refill; whoever is refused passes after the wait that it is told; and what is admitted afterwards keeps the theorem of the new limit. For moves under a clock that does not
/// step, without resets, refunds and credits; `change` gives the subject its new limit at an instant.
///
/// What `before` leaves is taken over at the instant of its last step, and `after` begins there.
///
/// # Errors
/// What was given away, or held back.
pub fn changes_keep_what_is_used<S: Subject>(
    (old, new): (&Rule, &Rule),
    subject: S,
    change: impl FnOnce(&mut S, u64),
    start_us: u64,
    (before, after): (&[Move], &[Move]),
) -> Result<(), String> {
    let played = play(old, true, start_us, before);
    let mut run = Run::new(subject);
    let mut admitted = Vec::new();
    for expected in &played {
        admitted.extend(taken(&mut run, expected));
    }
    let now = played.last().map_or(start_us, |last| last.step.t_us);
    let mut subject = run.subject;
    let seen = subject.peek(now, 0);
    change(&mut subject, now);
    let changed = subject.peek(now, 0);
    let wrong = |what: &str| {
        let last = played.len().saturating_sub(1);
        Err(failure(
            old,
            &played,
            last,
            &format!("changed to {new:?}: {what}\nbefore {seen:?}\nafter {changed:?}"),
        ))
    };

    if changed.remaining > most_left(old, new, seen.remaining, &admitted, now) {
        return wrong("more is left than the capacity grew by");
    }
    if changed.remaining < least_left(old, new, seen.remaining, &admitted, now) {
        return wrong("units are used that nobody has used");
    }
    // The slots of a queue are promised: whoever waits keeps its turn, however slow the queue is now.
    if !matches!(new, Rule::Queue { .. }) && changed.reset_after_us > new.full_period_us() {
        return wrong("locked for longer than the new limit takes to refill");
    }

    // Whoever is refused now passes when it is told to, though nobody was admitted in between.
    let mut admitted = Vec::new();
    let mut then = now;
    let first = subject.acquire(now, 1).0;
    if let (false, Some(wait)) = (first.allowed, first.retry_after_us)
        && now + wait <= horizon_us(new)
    {
        then = now + wait;
        if !subject.acquire(then, 1).0.allowed {
            return wrong(&format!("still refused after the wait of {wait} us that was told"));
        }
        admitted.push(Admitted { t_us: then, cost: 1 });
    } else if first.allowed {
        admitted.push(Admitted { t_us: now, cost: 1 });
    }

    let mut run = Run::new(subject);
    let later = play(new, true, then, after);
    for expected in &later {
        admitted.extend(taken(&mut run, expected));
    }
    let kept = match new {
        // Where the window began that is open at the change cannot be told from what came after it.
        Rule::Fixed { align: Align::FirstRequest, .. } => Ok(()),
        _ => theorem::check(new, &admitted),
    };
    kept.map_err(|what| {
        let last = later.len().saturating_sub(1);
        failure(new, &later, last, &format!("changed from {old:?}: {what}"))
    })
}

/// P14: when two limits take turns on a key, a refusal by the one leaves the other no more than it had, and no less
/// but for the rounding of two changes; whoever is refused passes after the wait that it is told, if nobody else
/// asks; and what both admit together keeps the theorem of the larger units and the faster rate. For limits that
/// count in the same windows; `change` gives the subject the limit whose turn it is.
///
/// # Errors
/// What was given away, or held back.
pub fn turns_give_nothing_away<S: Subject>(
    (one, two): (&Rule, &Rule),
    mut subject: S,
    mut change: impl FnMut(&mut S, &Rule),
    start_us: u64,
    turns: &[Turn],
) -> Result<(), String> {
    let horizon_us = horizon_us(one).min(horizon_us(two));
    let mut admitted = Vec::new();
    let mut trace = format!("{one:?}\n{two:?}\n");
    let mut now = start_us;
    for (number, turn) in turns.iter().enumerate() {
        let (rule, other) = if turn.second { (two, one) } else { (one, two) };
        let part_of = |most: u64, part: u16| (u128::from(most) * u128::from(part) / 1_000) as u64;
        now += part_of(rule.full_period_us(), turn.wait);
        if now > horizon_us {
            break;
        }
        let cost = part_of(rule.capacity(), turn.cost).max(1);
        change(&mut subject, other);
        let before = subject.peek(now, 0).remaining;
        change(&mut subject, rule);
        let answer = subject.acquire(now, cost).0;
        trace += &format!(
            "{number:>4}: {now} {cost} by {}: {answer:?}\n",
            if turn.second { "two" } else { "one" }
        );
        if answer.allowed {
            admitted.push(Admitted { t_us: now, cost });
            continue;
        }
        change(&mut subject, other);
        let after = subject.peek(now, 0).remaining;
        if after > before || after + rounded(one, two) < before {
            return Err(format!(
                "{trace}the other had {before} left before this refusal, and {after} after it"
            ));
        }
        if let (true, Some(wait)) = (turn.insists, answer.retry_after_us)
            && now + wait <= horizon_us
        {
            now += wait;
            change(&mut subject, rule);
            if !subject.acquire(now, cost).0.allowed {
                return Err(format!("{trace}still refused after the wait of {wait} us that was told"));
            }
            admitted.push(Admitted { t_us: now, cost });
        }
    }
    theorem::check(&larger(one, two), &admitted).map_err(|what| format!("{trace}{what}"))
}

/// How many units a level may seem to grow by when it is converted to and fro: each time by a microsecond's worth.
fn rounded(one: &Rule, two: &Rule) -> u64 {
    match one {
        Rule::Meter { .. } => [one, two].map(|rule| 1 + rule.amount() / rule.window_us()).iter().sum(),
        _ => 0,
    }
}

/// A limit that admits whatever either of two admits.
fn larger(one: &Rule, two: &Rule) -> Rule {
    let pace = |rule: &Rule, of: &Rule| u128::from(rule.amount()) * u128::from(of.window_us());
    match (one, two) {
        (Rule::Meter { .. }, Rule::Meter { .. }) => {
            let faster = if pace(one, two) >= pace(two, one) { one } else { two };
            let (amount, window_us) = (faster.amount(), faster.window_us());
            Rule::Meter { amount, window_us, burst: one.capacity().max(two.capacity()) }
        }
        _ if one.capacity() >= two.capacity() => one.clone(),
        _ => two.clone(),
    }
}

fn taken<S: Subject>(run: &mut Run<S>, expected: &Played) -> Option<Admitted> {
    let answer = run.step(expected.step);
    match expected.step.op {
        Op::Acquire(cost @ 1..) if answer.allowed => Some(Admitted { t_us: expected.step.t_us, cost }),
        _ => None,
    }
}

/// The most that may be left right after a change.
fn most_left(old: &Rule, new: &Rule, left: u64, admitted: &[Admitted], now: u64) -> u64 {
    match new {
        // A log has its entries, and counts those of its own window.
        Rule::Log { amount, window_us } => {
            amount.saturating_sub(within(admitted, now, *window_us.min(&old.window_us())))
        }
        // Turns that were given out under another rate are fewer or more of its own.
        Rule::Queue { amount, window_us, .. } if (*amount, *window_us) != (old.amount(), old.window_us()) => {
            new.capacity()
        }
        _ => left.saturating_add(new.capacity().saturating_sub(old.capacity())).min(new.capacity()),
    }
}

/// The least that must be left.
fn least_left(old: &Rule, new: &Rule, left: u64, admitted: &[Admitted], now: u64) -> u64 {
    let used = old.capacity().saturating_sub(left);
    match new {
        Rule::Log { amount, window_us } => {
            amount.saturating_sub(within(admitted, now, *window_us.max(&old.window_us())))
        }
        Rule::Fixed { amount, .. } => amount.saturating_sub(used),
        // A level is kept in units and rounded up once, by a microsecond of the new rate: one unit, or as many as
        // it gives in a microsecond.
        Rule::Meter { amount, window_us, burst } => {
            burst.saturating_sub(used).saturating_sub(1 + amount / window_us)
        }
        // A counter takes all that it counted for the present window, and a queue its turns as they are.
        Rule::Counter { .. } | Rule::Queue { .. } => 0,
    }
}

/// The units of the trailing window that ends now.
fn within(admitted: &[Admitted], now: u64, window_us: u64) -> u64 {
    admitted.iter().filter(|admission| admission.t_us + window_us > now).map(|admission| admission.cost).sum()
}
