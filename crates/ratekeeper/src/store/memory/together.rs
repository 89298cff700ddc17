//! The short way for a few limits that are decided together: all keys lie in their first buckets, in buckets of their
//! own, by the limits of now. Whatever is not so takes the general path, by the same rules.

use ratekeeper_core::{Ask, Evaluation, Moment, StateRef, Step, Verdict, decide_all};

use super::buckets::WordSlots;
use super::query::Query;
use super::table::{Bucket, Slots};

/// As many limits as most requests have at most. More take the general path.
const FEW: usize = 4;

/// Decides them all or nothing; `None`, with nothing written, if they are to take the general path.
///
/// The buckets are locked in the order of the general path (store, then index; all of them are first buckets), and the
/// clock is read when all are held.
pub(super) fn decide(queries: &[Query<'_>], ask: Ask) -> Option<Vec<Verdict>> {
    match queries.len() {
        2 => decide_few::<2>(queries.try_into().ok()?, ask),
        3 => decide_few::<3>(queries.try_into().ok()?, ask),
        FEW => decide_few::<FEW>(queries.try_into().ok()?, ask),
        _ => None,
    }
}

fn decide_few<const N: usize>(queries: &[Query<'_>; N], ask: Ask) -> Option<Vec<Verdict>> {
    if queries.iter().any(|query| query.up_to || query.is_log()) {
        return None;
    }
    let index = |query: &Query<'_>| (query.store.serial, query.store.words.first_index(query.hash));
    let places = queries.each_ref().map(index);
    let mut order: [usize; N] = std::array::from_fn(|nth| nth);
    order.sort_unstable_by_key(|nth| places[*nth]);
    // Two keys of one bucket, or one key that is named twice, are sorted out there.
    if order.windows(2).any(|pair| places[pair[0]] == places[pair[1]]) {
        return None;
    }
    let mut held: [Option<(WordSlots<'_>, usize)>; N] = [const { None }; N];
    for nth in order {
        let query = &queries[nth];
        let slots = query.store.words.first(places[nth].1).lock();
        let slot = slots.find_exact(query.hash, query.shape)?;
        held[nth] = Some((slots, slot));
    }
    let moments = moments(queries);
    let mut evaluations: [Option<Evaluation>; N] = [None; N];
    for (nth, query) in queries.iter().enumerate() {
        let (slots, slot) = held[nth].as_ref()?;
        let state = StateRef::Words(slots.state(*slot));
        evaluations[nth] = Some(query.evaluate(state, &moments[nth], query.cost, ask));
    }
    let step = decide_all(evaluations.iter().flatten(), ask);
    let mut verdicts = Vec::with_capacity(N);
    for (held, evaluation) in held.iter_mut().zip(evaluations.iter().flatten()) {
        let (slots, slot) = held.as_mut()?;
        let takes = step == Step::Take && evaluation.cost() > 0;
        let write = match step {
            Step::Take if takes => Some(evaluation.next()),
            Step::Heal => evaluation.healed(),
            Step::Take | Step::Nothing => None,
        };
        if let Some(state) = write {
            slots.set_state(*slot, state);
        }
        verdicts.push(if takes { evaluation.taken() } else { evaluation.untouched() });
    }
    Some(verdicts)
}

/// The moment of each, with one reading of each clock.
fn moments<const N: usize>(queries: &[Query<'_>; N]) -> [Moment; N] {
    let mut readings = [None; N];
    for (nth, query) in queries.iter().enumerate() {
        let same = queries[..nth].iter().position(|other| other.store.clock.is_same(&query.store.clock));
        readings[nth] = same.map_or_else(|| Some(query.store.clock.now()), |same| readings[same]);
    }
    std::array::from_fn(|nth| queries[nth].store.moment(&queries[nth], readings[nth].unwrap_or_default()))
}
