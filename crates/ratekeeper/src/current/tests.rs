use super::*;
use crate::store::memory::MAX_SHAPES;

/// All that the lists hold, and the first one, which has a place of its own.
const MOST: usize = 1 << CHUNKS;
const _: () = assert!(MOST >= MAX_SHAPES);

#[test]
fn as_many_limits_as_a_store_tells_apart_are_kept_and_not_one_more() {
    let limit = |n: usize| Limit::per_day(n as u64);
    let shape = |n: usize| Shape::try_from(n).expect("15 bits");
    let current = Current::new(limit(1), shape(1));
    assert_eq!(current.get().shape, 1);
    for n in 2..=MOST {
        assert!(current.set(limit(n), shape(n)));
        let now = current.get();
        assert_eq!((now.limit, now.shape), (limit(n), shape(n)));
    }
    assert!(!current.set(limit(MOST + 1), shape(MOST + 1)));
    assert_eq!(current.get().limit, limit(MOST), "the last one stays");
    // Those that were set before need no more room.
    for n in [1, 2, 3, 4, 1_000, MOST] {
        assert!(current.set(limit(n), shape(n)));
        assert_eq!(current.get().limit, limit(n));
    }
}
