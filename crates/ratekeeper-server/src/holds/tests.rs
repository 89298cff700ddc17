use ratekeeper::{Limit, MemoryStore, NamedLimit};
use ratekeeper_core::{Check, Name};

use super::*;

struct Bench {
    store: MemoryStore,
    policy: Name,
    limit: NamedLimit,
    holds: Holds,
}

impl Bench {
    fn new() -> Self {
        let name = |text: &str| Name::new(text).expect("a name");
        Self {
            store: MemoryStore::builder().max_keys(1_000).build().expect("a small store"),
            policy: name("p"),
            limit: NamedLimit::new(&name("p"), name("l"), Limit::per_day(1_000_000)),
            holds: Holds::new(Arc::new(Secret::new().expect("the system has random bytes"))),
        }
    }

    fn hold(&self, cost: u64, now: u64) -> Id {
        let checks = [Check { limit: &self.limit, key: "k".into(), cost }];
        let (_, reservation) = self.store.reserve_now(&checks).expect("memory answers");
        let taken = Taken { enforced: Some(reservation.expect("there is room")), ..Taken::default() };
        self.holds.keep(Some(self.policy.clone()), cost, taken, Micros::new(now))
    }

    fn end(&self, id: Id, cost: u64, now: u64) -> Result<Ending, NotEnded> {
        match self.holds.end(id, cost, Micros::new(now))? {
            Ends::Now(ending) => Ok(ending),
            Ends::Soon(_) => panic!("memory is not waited for"),
        }
    }

    fn used(&self) -> u64 {
        let checks = [Check { limit: &self.limit, key: "k".into(), cost: 0 }];
        1_000_000 - self.store.decide_now(&checks, ratekeeper_core::Ask::Peek).expect("an answer").remaining
    }
}

const TTL_US: u64 = 15 * 60 * 1_000_000;

#[test]
fn an_ending_that_is_repeated_changes_nothing_and_says_the_same() {
    let bench = Bench::new();
    let id = bench.hold(1_000, 0);
    let ended = Ending { policy: Some(bench.policy.clone()), held: 1_000, cost: 400, charged: 400 };
    for _ in 0..3 {
        assert_eq!(bench.end(id, 400, 1), Ok(ended.clone()));
        assert_eq!(bench.used(), 400);
    }
    assert_eq!(bench.end(id, 401, 1), Err(NotEnded::Otherwise(400)));
    assert_eq!(bench.end(id, 0, 1), Err(NotEnded::Otherwise(400)));
    assert_eq!(bench.used(), 400);
}

#[test]
fn a_reservation_that_nobody_ends_is_forgotten_and_stays_charged() {
    let bench = Bench::new();
    let id = bench.hold(1_000, 0);
    assert_eq!(bench.holds.len(Micros::new(1)), 1);
    assert_eq!(bench.end(id, 0, TTL_US), Err(NotEnded::Unknown));
    assert_eq!((bench.holds.len(Micros::new(TTL_US)), bench.used()), (0, 1_000));
}

#[test]
fn a_reservation_can_be_ended_until_its_last_microsecond() {
    let bench = Bench::new();
    let id = bench.hold(1_000, 0);
    assert!(bench.end(id, 0, TTL_US - 1).is_ok());
    assert_eq!(bench.used(), 0);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let bench = Bench::new();
    for number in 0..MAX_HOLDS as u64 {
        assert_eq!(bench.holds.room(Micros::new(number)), Ok(()));
        let _ = bench.hold(1, number);
    }
    let wait = bench.holds.room(Micros::new(TTL_US - 5_000_000));
    assert_eq!(wait, Err(Duration::from_secs(5)));
    // The first one expires.
    assert_eq!(bench.holds.room(Micros::new(TTL_US)), Ok(()));
}

#[test]
fn who_settles_at_once_leaves_a_bounded_trace() {
    let bench = Bench::new();
    for number in 0..2 * MAX_ENDINGS as u64 {
        let id = bench.hold(1, number);
        assert!(bench.end(id, 0, number).is_ok());
    }
    let inner = lock(&bench.holds.inner);
    assert_eq!((inner.open.len(), inner.ended.len(), inner.endings.len()), (0, MAX_ENDINGS, MAX_ENDINGS));
    assert!(inner.expiring.len() <= 1_025, "{}", inner.expiring.len());
}

#[test]
fn ids_are_read_as_they_are_written() {
    let bench = Bench::new();
    let (one, other) = (bench.hold(1, 0), bench.hold(1, 0));
    assert_ne!(one, other);
    assert_eq!(read(&written(one)), Some(one));
    assert_eq!(read(&written(one).to_uppercase()), Some(one));
    for wrong in [
        "",
        "00",
        "g0000000000000000000000000000000",
        "0000000000000000000000000000000é",
        "00000000-0000-0000-0000-000000000000",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn what_has_ended_is_not_searched_again_for_the_oldest_open_one() {
    let bench = Bench::new();
    let early: Vec<Id> = (0..100).map(|_| bench.hold(1, 0)).collect();
    let late = bench.hold(1, 5);
    for id in early {
        assert!(bench.end(id, 1, 6).is_ok());
    }
    assert!(bench.holds.room(Micros::new(7)).is_ok());
    let first = lock(&bench.holds.inner).expiring.front().copied();
    assert_eq!(first, Some((Micros::new(5 + TTL_US), late)));
}

/// Otherwise requests that no policy is about could fill the table, and nobody could reserve.
#[test]
fn reservations_that_hold_nothing_take_no_room() {
    let bench = Bench::new();
    for cost in [1, 5] {
        let id = bench.holds.keep(None, 5, Taken::default(), Micros::new(0));
        assert_eq!(bench.end(id, cost, 1), Ok(Ending { policy: None, held: 0, cost, charged: 0 }));
    }
    assert_eq!(bench.holds.len(Micros::new(0)), 0);
    assert_eq!(
        bench.end(id_of_nothing(), 3, 2 * TTL_US).map(|ending| ending.held),
        Ok(0),
        "and never expire"
    );
}

fn id_of_nothing() -> Id {
    read("00000000000000000000000000000000").expect("an id")
}
