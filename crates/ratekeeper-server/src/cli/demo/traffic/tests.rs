use std::collections::{BTreeMap, BTreeSet};

use ratekeeper_core::{Ask, Check, ManualClock, Micros};
use ratekeeper_policy::{Call, Config, Which};
use tokio::time::Instant;

use super::*;
use crate::live::build_stores;

#[test]
fn the_same_seed_asks_the_same_and_another_asks_otherwise() {
    let all: Vec<_> = questions(7).collect();
    assert_eq!(all, questions(7).collect::<Vec<_>>());
    assert_ne!(all, questions(8).collect::<Vec<_>>());
    let clients: BTreeSet<_> = all.iter().map(|question| question.key.rsplit(['.', '-']).next()).collect();
    assert_eq!(clients.len() as u64, CLIENTS);
    assert!(all.iter().all(|asked| asked.key.starts_with("ip=192.0.2.") || asked.key.starts_with("demo-")));
}

/// What the built-in policies answer over the ten minutes, in virtual time: refused and asked, by policy.
fn answers(seed: u64) -> BTreeMap<&'static str, (u64, u64)> {
    let config = Config::parse("t", super::super::FILE.as_bytes(), &|_| None).expect("the file is good");
    let clock = ManualClock::new();
    let stores = build_stores(&config, Some(&clock)).expect("there is memory");
    let mut answers = BTreeMap::new();
    for (n, question) in (0..).zip(questions(seed)) {
        clock.set(Micros::new(1_767_225_600_000_000 + n * 1_000_000 / PER_SECOND));
        let policy = config.policy(question.policy).expect("the policy is there");
        let call = Call { key: Some(&question.key), keys: &[], cost: question.cost };
        let applied = policy.named(&call, Which::All).expect("the key fits");
        let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
        let decision = stores[0].1.decide_now(&checks, Ask::Acquire).expect("memory answers");
        let (refused, asked) = answers.entry(question.policy).or_default();
        *asked += 1;
        *refused += u64::from(!decision.allowed);
    }
    answers
}

#[test]
fn every_policy_is_asked_and_most_but_not_all_is_let_in() {
    for seed in [1, 2] {
        let answers = answers(seed);
        assert_eq!(answers.len(), 5, "{answers:?}");
        for (policy, (refused, asked)) in &answers {
            assert!(refused < asked, "{policy}: {answers:?}");
            assert!(*policy == "reports" || *refused > 0, "{policy}: {answers:?}");
        }
        let (refused, asked) = answers.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        assert!((5..=30).contains(&(refused * 100 / asked)), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_keeps_its_pace_and_ends_after_ten_minutes() {
    let (began, mut asked) = (Instant::now(), 0);
    let mut paced = Paced::new(1);
    while paced.next().await.is_some() {
        asked += 1;
    }
    assert_eq!(asked, REQUESTS);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(590) && took < Duration::from_secs(660), "{took:?}");
}
