//! Parts of admissions that are given back, in all traces there are for small limits.

use crate::oracle::{Admitted, Rule, Subject, theorem};

/// P11 without chance: whatever units are taken and given back, in parts or whole, in up to `steps` steps, what
/// is net admitted keeps the theorem. How many admissions were looked at.
///
/// # Errors
/// The first trace after which too much is admitted.
pub fn parts_keep_their_bound_in_all_short_traces<S: Subject + Clone>(
    rule: &Rule,
    subject: &S,
    steps: usize,
) -> Result<u64, String> {
    let start =
        Trace { subject: subject.clone(), now: 2 * rule.window_us(), held: Vec::new(), text: String::new() };
    start.all(rule, steps)
}

/// A trace so far; of each admission what has not been given back.
#[derive(Clone)]
struct Trace<S: Subject> {
    subject: S,
    now: u64,
    held: Vec<(S::Receipt, Admitted)>,
    text: String,
}

impl<S: Subject + Clone> Trace<S> {
    fn all(&self, rule: &Rule, steps: usize) -> Result<u64, String> {
        let mut looked = 0;
        let Some(left) = steps.checked_sub(1) else { return Ok(looked) };
        for ticks in [0, 1, 3] {
            let now = self.now + ticks;
            for cost in [1, rule.capacity()] {
                let mut next = Self { now, ..self.clone() };
                let Some(receipt) = next.subject.acquire(now, cost).1 else { continue };
                next.text += &format!(" {now}: take {cost}.");
                next.held.push((receipt, Admitted { t_us: now, cost }));
                let mut net: Vec<Admitted> = next.held.iter().map(|(_, admitted)| *admitted).collect();
                net.sort_by_key(|admitted| admitted.t_us);
                theorem::check(rule, &net).map_err(|what| format!("{rule:?}:{} {what}", next.text))?;
                looked += 1 + next.all(rule, left)?;
            }
            // Nothing can be wrong any more once nothing can be taken.
            if left == 0 {
                continue;
            }
            for place in 0..self.held.len() {
                let cost = self.held[place].1.cost;
                for units in 1..=cost {
                    let mut next = Self { now, ..self.clone() };
                    let (receipt, admitted) = next.held.remove(place);
                    next.text += &format!(" {now}: the last {units} of {admitted:?} back.");
                    if let Some(rest) = next.subject.refund_last(now, &receipt, units) {
                        next.held.insert(place, (rest, Admitted { cost: cost - units, ..admitted }));
                    }
                    looked += next.all(rule, left)?;
                }
            }
        }
        Ok(looked)
    }
}
