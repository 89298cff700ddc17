//! The bounds that no traffic may pass, checked in linear time so that long runs can be.

use std::collections::BTreeMap;

use super::{Admitted, Align, Rule, Tick};

/// Checks the admission theorem of `rule` on a whole trace, given in order of time.
///
/// - meter, and the admissions of a queue: every closed span holds at most capacity + its length × N / W;
/// - counter: at most N (1 + its length / W);
/// - log: every trailing window holds at most N;
/// - fixed: every window holds at most N.
///
/// # Errors
/// Which span holds how much too much.
pub fn check(rule: &Rule, admitted: &[Admitted]) -> Result<(), String> {
    let amount = rule.amount();
    match rule {
        Rule::Meter { .. } | Rule::Counter { .. } | Rule::Queue { .. } => envelope(rule, admitted),
        Rule::Log { window_us, .. } => {
            let mut oldest = 0;
            let mut held: u128 = 0;
            for admission in admitted {
                held += u128::from(admission.cost);
                while admitted[oldest].t_us + window_us <= admission.t_us {
                    held -= u128::from(admitted[oldest].cost);
                    oldest += 1;
                }
                if held > amount.into() {
                    return Err(format!("{held} of {amount} in the window that ends at {}", admission.t_us));
                }
            }
            Ok(())
        }
        Rule::Fixed { window_us, align, .. } => {
            let mut held: BTreeMap<u64, u128> = BTreeMap::new();
            let mut opened: Option<u64> = None;
            for &Admitted { t_us, cost } in admitted {
                let start = match align {
                    Align::Epoch => t_us / window_us,
                    Align::Periods(starts) => starts.partition_point(|&start| start <= t_us) as u64,
                    Align::FirstRequest => match opened {
                        Some(start) if t_us < start + window_us => start,
                        _ => *opened.insert(t_us),
                    },
                };
                let held = held.entry(start).or_insert(0);
                *held += u128::from(cost);
                if *held > amount.into() {
                    return Err(format!("{held} of {amount} in the window that holds {t_us}"));
                }
            }
            Ok(())
        }
    }
}

/// With S the running sum: S_j W - t_j N may exceed the least S_{i-1} W - t_i N before it by capacity × W.
fn envelope(rule: &Rule, admitted: &[Admitted]) -> Result<(), String> {
    let (amount, window) = (i128::from(rule.amount()), i128::from(rule.window_us()));
    let allowance = i128::from(rule.capacity()) * window;
    let mut sum: i128 = 0;
    let mut least: Option<(i128, u64)> = None;
    for &Admitted { t_us, cost } in admitted {
        let before = sum * window - Tick::from(t_us) * amount;
        if least.is_none_or(|(least, _)| before < least) {
            least = Some((before, t_us));
        }
        sum += i128::from(cost);
        let after = sum * window - Tick::from(t_us) * amount;
        if let Some((least, from)) = least
            && after - least > allowance
        {
            let excess = after - least - allowance;
            return Err(format!("{excess}/{window} units too many from {from} to {t_us}"));
        }
    }
    Ok(())
}

/// Checks that a queue starts its requests in order and never closer than their costs allow.
///
/// `starts` are the starts that happened, each `t_us` + `delay_us` and so up to a microsecond late.
///
/// # Errors
/// Which starts are too close, or out of order.
pub fn check_spacing(rule: &Rule, starts: &[Admitted]) -> Result<(), String> {
    let (amount, window) = (i128::from(rule.amount()), i128::from(rule.window_us()));
    let mut sum: i128 = 0;
    // Costs × W from i up to, not with, j may not reach (s_j - s_i + 1) N.
    let mut least: Option<i128> = None;
    let mut last = 0;
    for &Admitted { t_us, cost } in starts {
        if t_us < last {
            return Err(format!("a start at {t_us} was given out after one at {last}"));
        }
        last = t_us;
        let before = sum * window - Tick::from(t_us) * amount;
        if let Some(least) = least
            && before - least >= amount
        {
            return Err(format!("the start at {t_us} comes too early by {}/{amount} us", before - least));
        }
        least = Some(least.map_or(before, |least| least.min(before)));
        sum += i128::from(cost);
    }
    Ok(())
}

/// The most units that a closed span of `span_us` can admit, whatever the traffic; for a queue the most
/// requests of cost 1 that can start in it.
#[must_use]
pub fn worst_case(rule: &Rule, span_us: u64) -> u128 {
    let (n, w, x) = (u128::from(rule.amount()), u128::from(rule.window_us()), u128::from(span_us));
    match rule {
        Rule::Fixed { align: Align::Periods(starts), .. } => {
            // A span that begins a tick before a boundary meets all that lie within it.
            let inside = |from: usize| {
                starts[from..].iter().take_while(|&&start| start - starts[from] < span_us).count()
            };
            n * (1 + (0..starts.len()).map(inside).max().unwrap_or(0) as u128)
        }
        // Windows that hold one request begin with it, so requests are at least W apart.
        Rule::Fixed { amount: 1, align: Align::FirstRequest, .. } => x / w + 1,
        Rule::Fixed { .. } => n * (x.div_ceil(w) + 1),
        Rule::Log { .. } => n * (x / w + 1),
        Rule::Counter { .. } => n + n * x / w,
        Rule::Meter { burst, .. } => u128::from(*burst) + n * x / w,
        Rule::Queue { .. } => 1 + n * x / w,
    }
}

/// The most units that any closed span of `span_us` of the trace holds; the trace is in order of time.
#[must_use]
pub fn most_within(admitted: &[Admitted], span_us: u64) -> u128 {
    let (mut first, mut held, mut most) = (0, 0, 0);
    for admission in admitted {
        held += u128::from(admission.cost);
        while admission.t_us - admitted[first].t_us > span_us {
            held -= u128::from(admitted[first].cost);
            first += 1;
        }
        most = most.max(held);
    }
    most
}
