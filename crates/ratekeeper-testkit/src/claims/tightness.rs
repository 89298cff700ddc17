//! The bounds are reached: a bound that nothing reaches is either too loose or kept by refusing too much.

use crate::oracle::{Admitted, Align, Rule, Subject, theorem};

/// Takes as much as there is at the instants of `bursts`, then single units as soon as each is let in, until
/// `until_us`; what was admitted. A limiter without a bound is left alone soon after it has shown that.
fn greedy<S: Subject>(rule: &Rule, subject: &mut S, bursts: &[(u64, u64)], until_us: u64) -> Vec<Admitted> {
    let mut admitted = Vec::new();
    let mut now = 0;
    for &(t_us, cost) in bursts {
        now = t_us;
        if subject.acquire(t_us, cost).0.allowed {
            admitted.push(Admitted { t_us, cost });
        }
    }
    let most = theorem::worst_case(rule, until_us);
    while now <= until_us && admitted.len() as u128 <= most {
        let answer = subject.acquire(now, 1).0;
        if answer.allowed {
            admitted.push(Admitted { t_us: now, cost: 1 });
        } else {
            now += answer.retry_after_us.expect("one unit always passes again").max(1);
        }
    }
    admitted
}

fn reaches(rule: &Rule, admitted: &[Admitted], span_us: u64, wanted: u128) -> Result<(), String> {
    let most = theorem::most_within(admitted, span_us);
    if most == wanted {
        Ok(())
    } else {
        Err(format!("{rule:?}: {most} units within {span_us} us, {wanted} can be reached"))
    }
}

/// P4: a full bucket at once, then a unit as soon as each flows in: the worst case of every span.
///
/// # Errors
/// The span that is not filled, or overfilled.
pub fn meter_reaches_its_worst_case<S: Subject>(rule: &Rule, mut subject: S) -> Result<(), String> {
    let from = 5;
    let longest = 3 * rule.full_period_us();
    let admitted = greedy(rule, &mut subject, &[(from, rule.capacity())], from + longest);
    for span in spans(longest) {
        reaches(rule, &admitted, span, theorem::worst_case(rule, span))?;
    }
    Ok(())
}

/// P4: the starts of a queue that is never empty: the worst case of every span.
///
/// # Errors
/// The span that is not filled, or overfilled.
pub fn queue_reaches_its_worst_case<S: Subject>(rule: &Rule, mut subject: S) -> Result<(), String> {
    let from = 5;
    let longest = 3 * rule.full_period_us();
    let mut starts = Vec::new();
    let mut now = from;
    let most = theorem::worst_case(rule, longest) + u128::from(rule.capacity());
    while now <= from + longest && starts.len() as u128 <= most {
        let answer = subject.acquire(now, 1).0;
        if answer.allowed {
            starts.push(Admitted { t_us: now + answer.delay_us, cost: 1 });
        } else {
            now += answer.retry_after_us.expect("one unit always passes again").max(1);
        }
    }
    for span in spans(longest) {
        // A start is told rounded up to the tick, so the first of a span, an exact one, is `from`.
        let most = starts.iter().filter(|start| start.t_us <= from + span).count() as u128;
        let wanted = theorem::worst_case(rule, span);
        if most != wanted {
            return Err(format!("{rule:?}: {most} starts within {span} us, {wanted} can be reached"));
        }
    }
    Ok(())
}

/// P4: the limit in the last tick of one window and in the first of the next, a tick apart; with full windows
/// between them every longer worst case.
///
/// # Errors
/// The span that is not filled, or overfilled.
pub fn fixed_window_reaches_its_worst_case<S: Subject>(
    rule: &Rule,
    mut subject: S,
    starts: &[u64],
) -> Result<(), String> {
    let amount = rule.amount();
    let mut bursts = Vec::new();
    for pair in starts.windows(2) {
        if bursts.is_empty() {
            bursts.push((pair[1] - 1, amount));
        } else {
            bursts.push((pair[0], amount));
        }
    }
    let mut admitted = Vec::new();
    for &(t_us, cost) in &bursts {
        if !subject.acquire(t_us, cost).0.allowed {
            return Err(format!("{rule:?}: a window is not fresh at {t_us}"));
        }
        if subject.acquire(t_us, 1).0.allowed {
            return Err(format!("{rule:?}: a window holds more than {amount} at {t_us}"));
        }
        admitted.push(Admitted { t_us, cost });
        let span = t_us - admitted[0].t_us;
        let met = u128::from(amount) * admitted.len() as u128;
        reaches(rule, &admitted, span, met)?;
        if matches!(rule, Rule::Fixed { align: Align::Epoch, .. }) && theorem::worst_case(rule, span) != met {
            return Err(format!("{rule:?}: the worst case of {span} us is {met}"));
        }
    }
    Ok(())
}

/// P4: the limit at once, and again whenever the oldest has left: the worst case of every span.
///
/// # Errors
/// The span that is not filled, or overfilled.
pub fn log_reaches_its_worst_case<S: Subject>(rule: &Rule, mut subject: S) -> Result<(), String> {
    let (amount, window) = (rule.amount(), rule.window_us());
    let bursts: Vec<(u64, u64)> = (0..4).map(|k| (5 + k * window, amount)).collect();
    let admitted = greedy(rule, &mut subject, &bursts, 5 + 3 * window);
    for span in spans(3 * window) {
        reaches(rule, &admitted, span, theorem::worst_case(rule, span))?;
    }
    Ok(())
}

/// P4, the adversary of a counter: all of it in the last tick of a window, then one by one as that fades. In a
/// half-open window it gets 2 N - 1, twice what an exact count would admit, less one.
///
/// # Errors
/// If it gets less, or more.
pub fn counter_reaches_twice_the_limit_less_one<S: Subject>(
    rule: &Rule,
    mut subject: S,
) -> Result<(), String> {
    let (amount, window) = (rule.amount(), rule.window_us());
    let admitted = greedy(rule, &mut subject, &[(window - 1, amount)], 4 * window);
    // Half-open: ticks of a window are as far apart as its length less one.
    reaches(rule, &admitted, window - 1, 2 * u128::from(amount) - 1)?;
    theorem::check(rule, &admitted)
}

/// Spans up to `longest`, all of them if there are few.
fn spans(longest: u64) -> impl Iterator<Item = u64> {
    let step = (longest / 200).max(1);
    (0..=longest).step_by(usize::try_from(step).unwrap_or(usize::MAX))
}
