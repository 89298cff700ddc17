use super::*;
use crate::seeded::Seeded;

const START: Micros = Micros::new(1_800_000_000_000_000);

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Refuses key number `n` of a policy.
fn refuse(sketch: &Sketch, now: Micros, n: u64) {
    sketch.refused(now, (&name("p"), Some(&name("l"))), &n.into(), |key| key.extend(n.to_string().bytes()));
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// What is told, by key.
fn told(sketch: &Sketch, now: Micros) -> HashMap<u64, (u64, u64)> {
    let top = sketch.top(now, usize::MAX, shown).denied;
    let all: HashMap<_, _> = top
        .iter()
        .map(|denied| (denied.key.parse().expect("a number"), (denied.count, denied.error)))
        .collect();
    assert_eq!(all.len(), top.len(), "no key is told twice");
    all
}

/// A number from 0 to some thousands, small ones far more often: of `doublings` ranges each is as likely.
fn skewed(random: &mut Seeded, doublings: u64) -> u64 {
    let range = 1 << random.below(doublings);
    random.below(range)
}

#[test]
fn who_is_refused_often_is_told_and_every_count_is_right_within_its_error() {
    for seed in 0..40 {
        let mut random = Seeded::new(seed);
        let sketch = Sketch::new(START);
        let mut truth: HashMap<u64, u64> = HashMap::new();
        let (refusals, doublings) = (1 + random.below(30_000), 2 + random.below(12));
        // Over both halves: the second begins somewhere on the way.
        let turn = random.below(refusals);
        for n in 0..refusals {
            let now = if n < turn { START } else { START.saturating_add(HALF) };
            let key = skewed(&mut random, doublings);
            *truth.entry(key).or_default() += 1;
            refuse(&sketch, now, key);
        }
        let told = told(&sketch, START.saturating_add(HALF));
        for (key, count) in &truth {
            match told.get(key) {
                Some((said, error)) => {
                    assert!(said >= count, "seed {seed}, key {key}: {said} is less than {count}");
                    assert!(
                        said - error <= *count,
                        "seed {seed}, key {key}: {said} less {error} is over {count}"
                    );
                }
                None => {
                    assert!(
                        count * (COUNTERS as u64) <= refusals,
                        "seed {seed}: key {key} was refused {count} times of {refusals}"
                    );
                }
            }
        }
        assert!(told.keys().all(|key| truth.contains_key(key)), "nobody is told who was not refused");
    }
}

#[test]
fn counts_are_exact_as_long_as_every_key_has_a_counter() {
    let sketch = Sketch::new(START);
    for n in 0..COUNTERS as u64 {
        (0..=n % 7).for_each(|_| refuse(&sketch, START, n));
    }
    let all = told(&sketch, START);
    assert_eq!(all.len(), COUNTERS);
    assert!(all.iter().all(|(n, told)| *told == (n % 7 + 1, 0)), "{all:?}");
    // One past it takes the place of another.
    refuse(&sketch, START, 1_000_000);
    let all = told(&sketch, START);
    assert_eq!((all.len(), all.get(&1_000_000)), (COUNTERS, Some(&(2, 1))));
}

#[test]
fn a_flood_of_keys_takes_no_memory_and_hides_nobody_who_is_refused_often() {
    let sketch = Sketch::new(START);
    let room = |sketch: &Sketch| {
        let inner = sketch.inner.lock().expect("nobody panicked");
        [inner.now.counters.capacity(), inner.now.by_id.capacity(), inner.before.counters.capacity()]
    };
    let before = room(&sketch);
    for n in 0..100_000 {
        refuse(&sketch, START, 1_000 + n);
        if n % 100 == 0 {
            refuse(&sketch, START, u64::MAX);
        }
    }
    // A table counts the places of what has left as taken until it is tidied: less, but never more.
    let after = room(&sketch);
    assert!(after.iter().zip(&before).all(|(after, before)| after <= before), "{after:?} {before:?}");
    assert_eq!(told(&sketch, START).len(), COUNTERS);
    let first = &sketch.top(START, 1, shown).denied[0];
    assert_eq!(&*first.key, u64::MAX.to_string(), "{first:?}");
    assert!((1_000..1_000 + 102_000 / COUNTERS as u64).contains(&first.count), "{first:?}");
}

#[test]
fn what_is_shown_is_of_the_last_minutes() {
    let sketch = Sketch::new(START);
    let at = |seconds| START.saturating_add(Duration::from_secs(seconds));
    refuse(&sketch, at(0), 1);
    assert_eq!(sketch.top(at(299), 9, shown).window, Duration::from_secs(299));
    refuse(&sketch, at(300), 2);
    refuse(&sketch, at(599), 1);
    let both = HashMap::from([(1, (2, 0)), (2, (1, 0))]);
    assert_eq!((told(&sketch, at(599)), sketch.top(at(599), 9, shown).window.as_secs()), (both, 599));
    // The first half is over.
    assert_eq!(told(&sketch, at(600)), HashMap::from([(1, (1, 0)), (2, (1, 0))]));
    assert_eq!(sketch.top(at(600), 9, shown).window.as_secs(), 300);
    // And a long time after nobody is.
    assert_eq!(told(&sketch, at(9_000)), HashMap::new());
    assert_eq!(sketch.top(at(9_000), 9, shown).window.as_secs(), 300);
}

#[test]
fn policies_and_limits_are_counted_apart_and_the_most_refused_come_first() {
    let sketch = Sketch::new(START);
    let count = |policy: &str, limit: Option<&str>, times: usize| {
        let limit = limit.map(name);
        (0..times).for_each(|_| {
            sketch.refused(START, (&name(policy), limit.as_ref()), &"k".into(), |key| key.push(b'k'))
        });
    };
    count("p", Some("l"), 2);
    count("p", None, 3);
    count("q", Some("l"), 1);
    let top = sketch.top(START, 2, shown);
    let said: Vec<_> =
        top.denied.iter().map(|d| (d.policy.as_str(), d.limit.as_ref().map(Name::as_str), d.count)).collect();
    assert_eq!(said, [("p", None, 3), ("p", Some("l"), 2)]);
}

#[test]
fn nobody_waits_to_be_counted_and_who_was_not_is_told() {
    let sketch = Sketch::new(START);
    let held = sketch.inner.lock().expect("nobody panicked");
    refuse(&sketch, START, 1);
    drop(held);
    refuse(&sketch, START, 1);
    let top = sketch.top(START, 9, shown);
    assert_eq!((top.missed, top.denied[0].count), (1, 1));
    let later = START.saturating_add(HALF);
    assert_eq!(sketch.top(later, 9, shown).missed, 1, "it belongs to the half that was");
    assert_eq!(sketch.top(later.saturating_add(HALF), 9, shown).missed, 0);
}
