//! Fields about arbitrary answers: structured fields as another parser reads them, with numbers in their bounds; and
//! what fields of strangers wish for.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use ratekeeper_core::{
    Algorithm, Align, Ask, Limit, LimitItem, LimitSpec, MAX_FIELD_INTEGER, Micros, Moment, Name, State,
    StateRef, Verdict, XRateLimit, evaluate, policy_field, retry_after_seconds, write_limit_field,
};
use ratekeeper_server::fuzzing;
use sfv::{BareItem, List, ListEntry, Parser};

fuzz_target!(|data: &[u8]| {
    let mut bytes = Unstructured::new(data);
    // What cannot be made from the bytes is no case.
    let _ = judge(&mut bytes);
    wishes(data);
});

fn judge(bytes: &mut Unstructured<'_>) -> Result<()> {
    let policy = Name::new("a-policy").expect("a name");
    let now = Micros::new(bytes.int_in_range(0..=Micros::MAX.get())?);
    let mut asked: Vec<(LimitItem, Verdict)> = Vec::new();
    for name in ["a", "b", "c"].into_iter().take(bytes.int_in_range(1..=3)?) {
        let Some(limit) = limit(bytes)? else { continue };
        let cost =
            if bytes.arbitrary()? { u64::from(bytes.arbitrary::<u16>()?) } else { bytes.arbitrary()? };
        let verdict = verdict(bytes, &limit, now, cost)?;
        asked.push((LimitItem::new(&policy, &Name::new(name).expect("a name"), &limit), verdict));
        x_fields(&verdict, now);
    }
    let mut field = Vec::new();
    let there = write_limit_field(&mut field, asked.iter().map(|(item, verdict)| (item, verdict)));
    assert_eq!(there, !field.is_empty());
    let field = String::from_utf8(field).expect("a text");
    for (key, n) in there.then(|| numbers(&field, ["r", "t"])).into_iter().flatten() {
        assert!(key != "t" || n >= 1, "{field}");
    }
    let policies = policy_field(asked.iter().map(|(item, _)| item));
    if !asked.is_empty() {
        for (key, n) in numbers(&policies, ["q", "w"]) {
            assert!(key != "w" || n >= 1, "{policies}");
        }
    }
    Ok(())
}

/// A limit of any kind but the log, whose state is no pair of words.
fn limit(bytes: &mut Unstructured<'_>) -> Result<Option<Limit>> {
    let kinds = Algorithm::ALL.map(|kind| (kind != Algorithm::SlidingWindowLog).then_some(kind));
    let Some(kind) = *bytes.choose(&kinds)? else { return Ok(None) };
    let mut spec =
        LimitSpec::new(kind, u64::from(bytes.arbitrary::<u32>()?), bytes.arbitrary::<u64>()? >> 18);
    if bytes.arbitrary()? {
        spec.burst = Some(u64::from(bytes.arbitrary::<u32>()?));
    }
    if bytes.arbitrary()? {
        spec.queue = Some(u64::from(bytes.arbitrary::<u16>()?));
        spec.max_wait_us = if bytes.arbitrary()? { Some(bytes.arbitrary::<u64>()? >> 18) } else { None };
    }
    if bytes.arbitrary()? {
        spec.align = Align::FirstRequest;
    }
    Ok(spec.build().ok())
}

/// The answer after up to eight other requests, each of them earlier or later than the one before: state may be from
/// the future. Words that no request has led to are no state.
fn verdict(bytes: &mut Unstructured<'_>, limit: &Limit, now: Micros, cost: u64) -> Result<Verdict> {
    let mut state = State::FRESH;
    let mut then = now.get();
    for _ in 0..bytes.int_in_range(0..=8)? {
        let step = bytes.arbitrary::<u64>()? >> bytes.int_in_range(0..=63)?;
        then = if bytes.arbitrary()? { then.saturating_add(step) } else { then.saturating_sub(step) };
        then = then.min(Micros::MAX.get());
        let at = Moment::at(Micros::new(then));
        let evaluation =
            evaluate(limit, StateRef::Words(state), &at, u64::from(bytes.arbitrary::<u16>()?), Ask::Acquire);
        if evaluation.allowed() {
            state = evaluation.next();
        }
    }
    let evaluation = evaluate(limit, StateRef::Words(state), &Moment::at(now), cost, Ask::Acquire);
    Ok(if evaluation.allowed() { evaluation.taken() } else { evaluation.untouched() })
}

fn x_fields(verdict: &Verdict, now: Micros) {
    let (unix, delta) = (XRateLimit::unix(verdict, now), XRateLimit::delta(verdict));
    assert_eq!((unix.limit, unix.remaining), (delta.limit, delta.remaining));
    assert!(delta.remaining <= delta.limit);
    assert!(unix.reset >= now.get() / 1_000_000);
    if let Some(wait) = verdict.retry_after() {
        assert!(retry_after_seconds(wait) >= 1);
        assert!(retry_after_seconds(wait) <= MAX_FIELD_INTEGER);
    }
}

/// The parameters of a list's items, each of which has these two.
fn numbers(field: &str, keys: [&str; 2]) -> Vec<(String, u64)> {
    let list: List = Parser::new(field).parse().expect(field);
    let mut numbers = Vec::new();
    for entry in list {
        let ListEntry::Item(item) = entry else { panic!("{field}: an inner list") };
        assert!(matches!(&item.bare_item, BareItem::String(_)), "{field}");
        assert!(item.params.keys().map(|key| key.as_str()).eq(keys), "{field}");
        for (key, value) in &item.params {
            let BareItem::Integer(n) = value else { panic!("{field}: no integer") };
            let n = u64::try_from(i64::from(*n)).expect("no sign");
            assert!(n <= MAX_FIELD_INTEGER, "{field}");
            numbers.push((key.as_str().to_owned(), n));
        }
    }
    numbers
}

/// Anything may stand in a field. Upper and lower case are one, and so are spaces around it.
fn wishes(value: &[u8]) {
    let said = fuzzing::wishes(value);
    assert_eq!(fuzzing::wishes(&value.to_ascii_uppercase()), said);
    assert_eq!(fuzzing::wishes(&[b" ", value, b"\t"].concat()), said);
    let also = [value, b", status=429"].concat();
    assert!(fuzzing::wishes(&also)[0]);
}
