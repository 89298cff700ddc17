use super::*;
use crate::settings::Settings;

#[test]
fn keys_are_bounded_and_those_in_use_are_kept() {
    let lanes = Lanes::default();
    let budget = Settings::DEFAULT.budget;
    let busy = lanes.of("busy".to_owned(), &budget);
    for key in 0..MAX_KEYS * 2 {
        lanes.of(key.to_string(), &budget);
        lanes.of("busy".to_owned(), &budget);
        assert!(lanes.len() <= MAX_KEYS);
    }
    assert!(lanes.len() > MAX_KEYS - 2 * FORGOTTEN_AT_ONCE);
    assert!(Arc::ptr_eq(&busy, &lanes.of("busy".to_owned(), &budget)));
}

#[test]
fn a_place_in_line_is_given_up_with_its_handle_and_there_are_so_many() {
    let lane = Lanes::default().of("a".to_owned(), &Settings::DEFAULT.budget);
    let places: Vec<_> = (0..MAX_WAITING).map(|_| Place::take(&lane)).collect();
    assert!(places.iter().all(Option::is_some));
    assert!(Place::take(&lane).is_none());
    drop(places);
    assert_eq!(Place::take(&lane).map(|place| place.others()), Some(0));
}
