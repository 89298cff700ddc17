use super::{Period, period_starts, replay, vectors};

#[test]
fn the_reference_answers_every_vector_as_worked_out() {
    let vectors = vectors();
    assert!(vectors.len() >= 146, "only {} vectors were found", vectors.len());
    let mut wrong = Vec::new();
    for vector in &vectors {
        for (step, outcome) in replay(vector).iter().enumerate() {
            wrong.extend(vector.mismatches(step, outcome));
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong.join("\n"));
}

/// Seconds since the epoch of the starts around an instant.
fn starts(period: Period, zone: &str, at_s: u64) -> Vec<u64> {
    let at = at_s * 1_000_000;
    let starts = period_starts(period, zone, at, at);
    let next = starts.partition_point(|&start| start <= at);
    starts[next - 1..=next].iter().map(|us| us / 1_000_000).collect()
}

#[test]
fn a_day_in_spring_is_an_hour_short() {
    // 2026-03-29 in Paris: 00:00 +01:00 to 24:00 +02:00.
    assert_eq!(starts(Period::Day, "Europe/Paris", 1_774_750_000), [1_774_738_800, 1_774_821_600]);
}

#[test]
fn a_day_without_a_midnight_begins_at_one_o_clock() {
    // 2018-11-04 in São Paulo: clocks went from 00:00 -03:00 to 01:00 -02:00.
    assert_eq!(starts(Period::Day, "America/Sao_Paulo", 1_541_350_000), [1_541_300_400, 1_541_383_200]);
}

#[test]
fn a_day_that_begins_twice_begins_the_first_time() {
    // 2006-10-29 in St. John's: a minute after midnight (-02:30) clocks went back to 23:01 of the day before.
    assert_eq!(starts(Period::Day, "America/St_Johns", 1_162_100_000)[0], 1_162_089_000);
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    assert_eq!(starts(Period::Week, "UTC", 1_774_750_000), [1_774_224_000, 1_774_828_800]);
    assert_eq!(starts(Period::Month, "UTC", 1_774_750_000), [1_772_323_200, 1_775_001_600]);
}

#[test]
fn a_line_of_a_vector_is_the_step_without_what_is_expected() {
    let vectors = vectors();
    let refund = vectors.iter().flat_map(|vector| &vector.steps).find(|step| step.of.is_some());
    let line: serde_json::Value = serde_json::from_str(&refund.unwrap().line()).unwrap();
    let fields: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(fields.contains(&"of") && !fields.contains(&"expect"), "{fields:?}");
}

#[test]
fn a_wrong_answer_does_not_pass() {
    let vectors = vectors();
    let vector = vectors.iter().find(|vector| vector.id == "B40").unwrap();
    let right = replay(vector);
    for (step, outcome) in right.iter().enumerate() {
        assert_eq!(vector.mismatches(step, outcome), Vec::<String>::new());
        let wrong = [
            super::Outcome { remaining: outcome.remaining + 1, ..outcome.clone() },
            super::Outcome { allowed: !outcome.allowed, ..outcome.clone() },
            super::Outcome { reset_after_us: outcome.reset_after_us + 1, ..outcome.clone() },
            super::Outcome { retry_after_us: outcome.retry_after_us.map(|us| us + 1), ..outcome.clone() },
            super::Outcome { t_us: outcome.t_us + 1, ..outcome.clone() },
        ];
        for wrong in wrong {
            assert!(!vector.mismatches(step, &wrong).is_empty(), "{wrong:?}");
        }
    }
}
