use super::*;

#[test]
fn two_sides_fill_two_words_and_come_back() {
    let most = (1 << TAT_BITS) - 1;
    for (a, b, tat_us, apart) in [
        (1, 2, 0, 0),
        (0x7ffe, 0x5555, most, (1 << APART_BITS) - 1),
        (0x2aaa, 0x7ffe, most, 0),
        (3, 0x4001, 1_700_000_000_000_000, 366 * 86_400_000_000),
    ] {
        let (first, last) = (Side { shape: a, tat_us }, Side { shape: b, tat_us: tat_us + apart });
        for both in [Both::new(first, last), Both::new(last, first)] {
            let both = both.expect("within the bounds");
            let Both(read) = State::from(both).into();
            assert!(read == [first, last] || (apart == 0 && read == [last, first]), "{read:?}");
            assert_eq!(both.idle_at(), Micros::new(tat_us + apart));
        }
    }
    let side = |tat_us| Side { shape: 1, tat_us };
    assert_eq!(Both::new(side(most + 1), side(most + 1)), None);
    assert_eq!(Both::new(side(0), side(1 << APART_BITS)), None);
}
