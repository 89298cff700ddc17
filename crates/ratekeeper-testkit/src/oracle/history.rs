//! The oracle without a state: whether a check is admissible is a function of what was admitted before it.
//!
//! It holds for instants that do not decrease and for traces without refunds, resets and credits. A limiter
//! whose encoding of its state is wrong will disagree, however plausible the state.

use super::{Admitted, Align, Rule, Tick, rounded_up};

/// Whether `cost` is admissible at `t_us` after `admitted`.
#[must_use]
pub fn admissible(rule: &Rule, admitted: &[Admitted], t_us: u64, cost: u64) -> bool {
    if cost > rule.capacity() {
        return false;
    }
    if cost == 0 {
        return true;
    }
    let (amount, window) = (i128::from(rule.amount()), i128::from(rule.window_us()));
    let (now, cost) = (Tick::from(t_us), i128::from(cost));
    match rule {
        Rule::Meter { burst, .. } => {
            // Refused only if some span that ends here would hold more than burst + its length / T.
            let mut taken = cost;
            admitted.iter().rev().all(|admission| {
                taken += i128::from(admission.cost);
                let span = now - Tick::from(admission.t_us);
                (taken - i128::from(*burst)) * window <= span * amount
            })
        }
        Rule::Fixed { align, .. } => {
            let start = window_start(align, window, admitted, now);
            cost + sum(admitted, |at| at >= start) <= amount
        }
        Rule::Log { .. } => cost + sum(admitted, |at| at > now - window) <= amount,
        Rule::Counter { .. } => {
            let start = now - now.rem_euclid(window);
            let current = sum(admitted, |at| at >= start);
            let previous = sum(admitted, |at| at >= start - window && at < start);
            previous * (start + window - now) + (current + cost) * window <= amount * window
        }
        Rule::Queue { queue, max_wait_us, .. } => {
            let wait = start_of_next(rule, admitted, now) - now * amount;
            wait + cost * window <= (i128::from(*queue) + 1) * window
                && max_wait_us.is_none_or(|longest| wait <= i128::from(longest) * amount)
        }
    }
}

/// How long a request that is admitted at `t_us` waits for its start, rounded up; 0 for all but queues.
///
/// # Panics
/// If the wait does not fit 64 bits.
#[must_use]
pub fn delay_us(rule: &Rule, admitted: &[Admitted], t_us: u64) -> u64 {
    let now = Tick::from(t_us);
    let amount = i128::from(rule.amount());
    let wait = match rule {
        Rule::Queue { .. } => rounded_up(start_of_next(rule, admitted, now) - now * amount, amount),
        _ => 0,
    };
    u64::try_from(wait).expect("a start is never in the past")
}

/// When a queue would start a request that arrives now, times amount: whoever came before, however long
/// ago, has begun at its arrival or later, and it and all behind it take their time.
fn start_of_next(rule: &Rule, admitted: &[Admitted], now: Tick) -> i128 {
    let (amount, window) = (i128::from(rule.amount()), i128::from(rule.window_us()));
    let mut behind = 0;
    let mut start = now * amount;
    for admission in admitted.iter().rev() {
        behind += i128::from(admission.cost) * window;
        start = start.max(Tick::from(admission.t_us) * amount + behind);
    }
    start
}

/// The start of the fixed window in which `now` lies.
fn window_start(align: &Align, window: i128, admitted: &[Admitted], now: Tick) -> Tick {
    match align {
        Align::Epoch => now - now.rem_euclid(window),
        Align::Periods(starts) => {
            let begun = starts.iter().filter(|&&start| Tick::from(start) <= now);
            begun.max().map_or(Tick::MIN, |&start| start.into())
        }
        Align::FirstRequest => {
            let mut start = None;
            for admission in admitted {
                let at = Tick::from(admission.t_us);
                if start.is_none_or(|start| at >= start + window) {
                    start = Some(at);
                }
            }
            match start {
                Some(start) if now < start + window => start,
                _ => now,
            }
        }
    }
}

fn sum(admitted: &[Admitted], counts: impl Fn(Tick) -> bool) -> i128 {
    let counted = admitted.iter().filter(|admission| counts(admission.t_us.into()));
    counted.map(|admission| i128::from(admission.cost)).sum()
}
