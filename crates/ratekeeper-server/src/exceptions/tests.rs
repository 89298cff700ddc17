use ratekeeper_core::{Ask, Clock as _, ManualClock};
use ratekeeper_policy::{Config, Exceptions as _};

use super::*;
use crate::app::App;
use crate::asking::{Asking, Outcome};
use crate::live::Seen;

const FILE: &str = "
version: 1
client_ip: { ipv6_prefix: 64 }
policies:
  - name: p
    key: [header:x-user, ip]
    limits: [{ name: l, algorithm: fixed-window, limit: 2/day }]
    overrides: [{ key: blocked, action: block }]
";

fn config(file: &str) -> Config {
    Config::parse("t", file.as_bytes(), &|_| None).expect("a good file")
}

fn app(clock: &ManualClock) -> App {
    App::on(config(FILE), Some(clock.clone())).expect("a store")
}

fn clock() -> ManualClock {
    ManualClock::at(Micros::new(1_800_000_000_000_000))
}

impl From<NotTaken> for String {
    fn from(wrong: NotTaken) -> Self {
        format!("{wrong:?}")
    }
}

/// Makes something different for a key of policy 0.
fn set(app: &App, key: &str, wish: &Wish, ttl: Duration) -> Result<(), String> {
    let until = app.now().saturating_add(ttl);
    app.except(|live| {
        let policy = &live.config().policies[0];
        let applied = meant(policy, key).map_err(|wrong| wrong.to_string())?;
        let canonical = canonical(&applied.key().expect("it has one"));
        let act = wish.act(policy, &applied).map_err(|wrong| format!("{wrong:?}"))?;
        Ok(New { policy: 0, key: key.to_owned(), canonical, wish: wish.clone(), act, until })
    })
}

fn end(app: &App, key: &str) -> bool {
    let which = |live: &Live| -> Result<Which, String> {
        let policy = &live.config().policies[0];
        let applied = meant(policy, key).map_err(|wrong| wrong.to_string())?;
        Ok((policy.name().clone(), canonical(&applied.key().expect("it has one"))))
    };
    app.end_exception(which).expect("a key")
}

fn raise(to: &str) -> Wish {
    Wish::Limits(vec![("l".to_owned(), OwnNumbers { limit: Some(to.to_owned()), ..OwnNumbers::default() })])
}

fn ask(app: &App, key: &str) -> Outcome {
    let live = app.live();
    let call = Call { key: Some(key), keys: &[], cost: 1 };
    let plan = live.config().policies.named_except(0, &call, &**live).expect("a good call");
    let asking = Asking::new(&live, plan.applied(), Seen::default());
    live.decide(&asking, Ask::Acquire).expect("an answer")
}

/// How many of `n` requests pass.
fn passed(app: &App, key: &str, n: usize) -> usize {
    (0..n).filter(|_| ask(app, key).allowed()).count()
}

#[test]
fn an_exception_holds_from_the_next_request_until_its_end_to_the_microsecond() {
    let clock = clock();
    let app = app(&clock);
    assert!(app.live().exceptions().is_empty());
    set(&app, "a", &Wish::Action(Action::Block), MIN_TTL).expect("room");
    assert!(ask(&app, "a").is_blocked);
    assert_eq!(passed(&app, "b", 3), 2, "nobody else");
    clock.advance(MIN_TTL - Duration::from_micros(1));
    assert!(ask(&app, "a").is_blocked);
    clock.advance(Duration::from_micros(1));
    assert_eq!(passed(&app, "a", 3), 2, "a block takes nothing");
    assert!(!app.live().exceptions().is_empty(), "nobody has looked");
    assert_eq!(app.said().len(), 0);
    assert!(app.live().exceptions().is_empty(), "what has expired leaves");
}

#[test]
fn it_goes_before_the_overrides_of_the_file_and_leaves_them_as_they_were() {
    let clock = clock();
    let app = app(&clock);
    assert!(ask(&app, "blocked").is_blocked);
    set(&app, "blocked", &Wish::Action(Action::Bypass), MIN_TTL).expect("room");
    let outcome = ask(&app, "blocked");
    assert!(outcome.allowed() && outcome.decision.is_none());
    assert!(end(&app, "blocked"));
    assert!(!end(&app, "blocked"), "there is none any more");
    assert!(ask(&app, "blocked").is_blocked);
}

#[test]
fn other_numbers_go_on_with_what_has_been_used() {
    let app = app(&clock());
    assert_eq!(passed(&app, "a", 3), 2);
    set(&app, "header:x-user=a", &raise("5/day"), MAX_TTL).expect("room");
    assert_eq!(passed(&app, "a", 9), 3);
    assert_eq!(app.said().len(), 1);
    set(&app, "a", &raise("6/day"), MAX_TTL).expect("room");
    assert_eq!((app.said().len(), passed(&app, "a", 9)), (1, 1), "the same key, whichever way it is written");
}

#[test]
fn an_address_stands_for_its_network_as_in_keys() {
    let app = app(&clock());
    set(&app, "ip=2001:db8::1", &Wish::Action(Action::Block), MAX_TTL).expect("room");
    assert!(ask(&app, "ip=2001:db8::2").is_blocked);
    assert!(ask(&app, "ip=2001:db8:0:1::1").allowed());
    assert!(ask(&app, "2001:db8::1").allowed(), "the text is another key");
}

#[test]
fn texts_of_answers_are_found_for_each_exception_and_after_others_have_ended() {
    let app = app(&clock());
    for (key, most) in [("a", "3/day"), ("b", "4/day"), ("c", "5/day")] {
        set(&app, key, &raise(most), MAX_TTL).expect("room");
    }
    assert!(end(&app, "a"));
    let capacity = |key: &str| {
        let live = app.live();
        let call = Call { key: Some(key), keys: &[], cost: 1 };
        let plan = live.config().policies.named_except(0, &call, &**live).expect("a good call");
        let applied = &plan.applied()[0];
        let number = applied.by_exception;
        assert_eq!(number.is_some(), key != "a");
        assert_eq!(number.is_some(), live.find(0, &applied.key().expect("a key")).is_some());
        live.texts(applied).policy_field.clone()
    };
    for (key, q) in [("a", "q=2"), ("b", "q=4"), ("c", "q=5")] {
        assert!(capacity(key).contains(q), "{key}: {}", capacity(key));
    }
}

#[test]
fn a_reload_keeps_what_can_hold_and_says_what_cannot_without_a_key() {
    let clock = clock();
    let app = app(&clock);
    set(&app, "a", &raise("5/day"), MAX_TTL).expect("room");
    set(&app, "b", &Wish::Action(Action::Block), MAX_TTL).expect("room");
    let renamed = FILE.replace("name: l", "name: other");
    let notes = app.reload(config(&renamed)).expect("it is good");
    assert_eq!(notes, ["1 temporary override of policy `p` ended: there is no limit `l` of its key"]);
    assert!(ask(&app, "b").is_blocked);
    assert_eq!((app.said().len(), passed(&app, "a", 9)), (1, 2));
    let notes = app.reload(config(FILE)).expect("it is good");
    assert_eq!((notes.len(), passed(&app, "a", 9)), (0, 2), "what was dropped does not come back");
    let gone = FILE.replace("name: p", "name: q");
    let notes = app.reload(config(&gone)).expect("it is good");
    assert_eq!(notes, ["1 temporary override of policy `p` ended: there is no such policy any more"]);
    assert_eq!(app.said().len(), 0);
}

#[test]
fn keys_that_become_one_by_a_reload_have_what_was_said_last() {
    let app = app(&clock());
    set(&app, "ip=2001:db8::1", &Wish::Action(Action::Block), MAX_TTL).expect("room");
    set(&app, "ip=2001:db8:0:1::1", &Wish::Action(Action::Bypass), MAX_TTL).expect("room");
    app.reload(config(&FILE.replace("ipv6_prefix: 64", "ipv6_prefix: 48"))).expect("it is good");
    assert_eq!(app.said().len(), 1);
    let outcome = ask(&app, "ip=2001:db8::1");
    assert!(outcome.allowed() && outcome.decision.is_none());
}

#[test]
fn so_many_hold_and_one_more_only_in_place_of_another() {
    let clock = clock();
    let app = app(&clock);
    let block = Wish::Action(Action::Block);
    for n in 0..MAX_EXCEPTIONS {
        let ttl = if n == 0 { MIN_TTL } else { MAX_TTL };
        set(&app, &format!("k{n}"), &block, ttl).expect("room");
    }
    assert_eq!(set(&app, "more", &block, MAX_TTL), Err("Full".to_owned()));
    assert!(ask(&app, "more").allowed());
    set(&app, "k7", &Wish::Action(Action::Bypass), MAX_TTL).expect("it is there already");
    clock.advance(MIN_TTL);
    set(&app, "more", &block, MAX_TTL).expect("one has expired");
    assert!(ask(&app, "more").is_blocked);
    assert_eq!((app.said().len(), clock.now() == app.now()), (MAX_EXCEPTIONS, true));
}

#[test]
fn a_policy_that_counts_everybody_together_has_no_keys_to_except() {
    let file = config(
        &FILE
            .replace("key: [header:x-user, ip]", "key: [global]")
            .replace("    overrides: [{ key: blocked, action: block }]\n", ""),
    );
    assert_eq!(meant(&file.policies[0], "a").err(), Some(NoKey::Everybody));
    let file = config(
        "version: 1\npolicies: [{ name: p, limits: [{ name: l, algorithm: gcra, limit: 1/s, key: [ip] }] }]",
    );
    assert_eq!(meant(&file.policies[0], "a").err(), Some(NoKey::Everybody), "nor has one without a key");
    let file = config(FILE);
    assert!(matches!(meant(&file.policies[0], "").err(), Some(NoKey::Wrong(CallError::Empty(_)))));
}

#[test]
fn what_is_not_said_stays_as_the_file_has_it_for_that_key() {
    let file = "
version: 1
policies:
  - name: p
    key: [header:x-user]
    limits:
      - { name: l, algorithm: token-bucket, limit: 1/day, burst: 2 }
      - { name: m, algorithm: token-bucket, limit: 1/day, burst: 3 }
    overrides:
      - { key: 'gold-*', limits: { l: { limit: 9/day, burst: 9 }, m: { burst: 7 } } }
      - { key: closed, action: block }
";
    let app = App::on(config(file), Some(clock())).expect("a store");
    let five = OwnNumbers { burst: Some(5), ..OwnNumbers::default() };
    let wish = Wish::Limits(vec![("l".to_owned(), five)]);
    for (key, passes) in [("gold-1", 5), ("closed", 3), ("u", 3)] {
        set(&app, key, &wish, MAX_TTL).expect("room");
        let live = app.live();
        let call = Call { key: Some(key), keys: &[], cost: 1 };
        let plan = live.config().policies.named_except(0, &call, &**live).expect("a good call");
        let Does::Limits(limits) = plan.applied()[0].does else { panic!("{key} has limits") };
        let amounts: Vec<u64> = limits.iter().map(|limit| limit.named.limit().spec().amount).collect();
        assert_eq!(amounts, if key == "gold-1" { [9, 1] } else { [1, 1] }, "{key}");
        assert_eq!(passed(&app, key, 9), passes, "{key}");
    }
    // Under another file what stays is what that one says.
    app.reload(config(&file.replace("m: { burst: 7 }", "m: { burst: 1 }"))).expect("it is good");
    assert_eq!(passed(&app, "gold-1", 9), 0);
    set(&app, "gold-2", &wish, MAX_TTL).expect("room");
    assert_eq!(passed(&app, "gold-2", 9), 1);
}

#[test]
fn a_limit_that_never_holds_the_cost_of_the_policy_is_refused() {
    let file = "
version: 1
policies:
  - name: p
    key: [header:x-user]
    cost: { header: x-cost, default: 1, max: 5 }
    limits: [{ name: l, algorithm: fixed-window, limit: 9/day }]
";
    let app = App::on(config(file), Some(clock())).expect("a store");
    let wrong = set(&app, "a", &raise("4/day"), MAX_TTL).expect_err("5 never fits");
    assert!(wrong.contains("\"limit\"") && wrong.contains("never holds more than 4"), "{wrong}");
    set(&app, "a", &raise("5/day"), MAX_TTL).expect("it fits");
    let notes = app.reload(config(&file.replace("max: 5", "max: 6"))).expect("it is good");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("1 temporary override of policy `p` ended: limit `l`: "), "{notes:?}");
    let drains = file.replace("    cost:", "    on_excess: drain\n    cost:");
    let app = App::on(config(&drains), Some(clock())).expect("a store");
    set(&app, "a", &raise("4/day"), MAX_TTL).expect("what is left is taken");
}

#[test]
fn overrides_leave_the_store_room_for_the_limits_of_the_next_file() {
    let app = app(&clock());
    let live = app.live_for_long();
    let name = |text: &str| ratekeeper_core::Name::new(text).expect("a name");
    let mut amount = 10;
    while live.store_of(0).distinct_limits_left() > MIN_LIMITS_LEFT {
        amount += 1;
        let limit = ratekeeper_core::Limit::per_day(amount);
        let named = ratekeeper_core::NamedLimit::new(&name("p"), name("x"), limit);
        let check = ratekeeper_core::Check { limit: &named, key: "".into(), cost: 0 };
        let memory = live.store_of(0).memory().expect("in memory");
        drop(memory.decide_now(&[check], Ask::Peek).expect("room"));
    }
    set(&app, "a", &raise("3/day"), MAX_TTL).expect("as many as must be left are left");
    let wrong = set(&app, "b", &raise("4/day"), MAX_TTL).expect_err("one less is left");
    assert_eq!(wrong, format!("{:?}", NotTaken::Store(StoreError::TooManyShapes)));
    set(&app, "b", &Wish::Action(Action::Block), MAX_TTL).expect("it needs none");
    app.reload(config(&FILE.replace("2/day", "4/day"))).expect("files may have the rest");
}
