//! Why a request is limited as it is: the reasons, and that they are those of the plan.

use core::net::IpAddr;
use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use ratekeeper_core::Key;
use ratekeeper_policy::{
    Act, Action, Applied, Call, Config, Does, Exception, Exceptions, Explanation, Facts, Fate, Numbers,
    Policies, Request, Source,
};

use crate::parse;

const FILE: &str = "version: 1
client_ip: { trusted_proxies: [10.0.0.0/8] }
policies:
  - name: api
    match: { path: \"/api/**\" }
    key: [header:x-api-key, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: tenant, algorithm: gcra, limit: 10/s, key: [header:x-tenant] }
    overrides:
      - { key: \"partner-*\", limits: { burst: 3000/minute } }
      - { key: 192.0.2.0/24, action: bypass }
  - name: login
    match: { method: POST, path: /login }
    key: [ip]
    group: doors
    cost: { header: x-cost, default: 2, max: 7 }
    limits: [{ name: tries, algorithm: sliding-window-log, limit: 10 per 10m }]
  - name: door
    key: [ip]
    group: doors
    limits: [{ name: tries, algorithm: gcra, limit: 10/s }]
  - name: strict
    match: { headers: { x-strict: \"*\" } }
    key: [header:x-user, [header:x-team, cookie:sid]]
    missing_key: reject
    replaces: [door]
    limits: [{ name: l, algorithm: gcra, limit: 10/s }]
  - name: reports
    match: { path: \"/reports/{id}\" }
    key: [[path:id, header:x-user]]
    mode: shadow
    limits: [{ name: daily, algorithm: fixed-window, limit: 1000/day }]
  - name: asleep
    key: [ip]
    mode: off
    limits: [{ name: none, algorithm: fixed-window, limit: 1/day }]
";

fn facts<'a>(request: &'a str, headers: &'a [(&'a str, &'a [u8])], ip: &str) -> Facts<'a> {
    let (method, target) = request.split_once(' ').expect("a method and a path");
    let source = ip.parse::<IpAddr>().map_or(Source::Unknown, Source::Peer);
    Facts { method: Some(method), target: Some(target), host: Some("shop.example"), headers, source }
}

/// A line for each policy: its name, what becomes of it, and why.
fn lines(config: &Config, explanation: &Explanation<'_>) -> Vec<String> {
    let name = |index: usize| config.policies[index].name().to_string();
    let line = |policy: usize, fate: &Fate<'_>| {
        let why = match fate {
            Fate::Applies { applied, cost, left_out } => {
                let mut why = applied.key_text(&config.policies).unwrap_or_else(|| "no key".to_owned());
                let _ = write!(why, "; cost {} {cost}", applied.cost);
                if let Some(place) = applied.by_override {
                    let over = &config.policies[policy].overrides().as_slice()[place];
                    let _ = write!(why, "; override {} on line {}", over.text(), over.line());
                }
                for (place, missing) in left_out {
                    let _ = write!(why, "; not limit {place}: {missing}");
                }
                why
            }
            Fate::NoMatch(misfit) => misfit.to_string(),
            Fate::NoKey(missing) => missing.clone(),
            Fate::Grouped { group, by } => format!("{group}: {}", name(*by)),
            Fate::Replaced { by } => name(*by),
            Fate::Wrong(wrong) => wrong.to_string(),
            _ => String::new(),
        };
        format!("{} {} {why}", name(policy), fate.name()).trim_end().to_owned()
    };
    explanation.policies.iter().map(|explained| line(explained.policy, &explained.fate)).collect()
}

fn explained(facts: &Facts<'_>) -> Vec<String> {
    let config = parse(FILE).expect("a good file");
    let request = Request::new(facts, &config.client_ip).expect("a path");
    lines(&config, &config.policies.explain(&request, None, &()))
}

#[test]
fn every_policy_of_the_file_says_what_becomes_of_it_and_why() {
    assert_eq!(
        explained(&facts("POST /login", &[], "203.0.113.9")),
        [
            "api no_match path /login is not under /api/",
            "login applies ip = 203.0.113.9; cost 2 by default: header x-cost is absent",
            "door group doors: login",
            "strict no_match header x-strict is absent",
            "reports no_match path /login does not fit /reports/{id}",
            "asleep off",
        ]
    );
    let headers: &[(&str, &[u8])] = &[("X-Cost", b"5"), ("x-forwarded-for", b"198.51.100.1, 2001:db8::7")];
    assert_eq!(
        explained(&facts("POST /login", headers, "10.0.0.4"))[1],
        "login applies ip = 2001:db8::/64; cost 5 by header x-cost"
    );
    assert_eq!(
        explained(&facts("POST /login", &[], "nobody"))[1],
        "login no_key the client's address is not known"
    );
    assert_eq!(
        explained(&facts("GET /reports/7", &[("x-user", b" ")], "203.0.113.9"))[4],
        "reports no_key header x-user is absent"
    );
}

#[test]
fn overrides_and_limits_without_a_key_are_said() {
    let partner: &[(&str, &[u8])] = &[("x-api-key", b"partner-7"), ("x-tenant", b"t")];
    assert_eq!(
        explained(&facts("GET /api/x", partner, "203.0.113.9"))[0],
        "api applies header:x-api-key = partner-7; cost 1 by the policy; override partner-* on line 11"
    );
    assert_eq!(
        explained(&facts("GET /api/x", &[], "203.0.113.9"))[0],
        "api applies ip = 203.0.113.9; cost 1 by the policy; not limit 1: header x-tenant is absent"
    );
    assert_eq!(
        explained(&facts("GET /api/x", &[], "192.0.2.7"))[0],
        "api applies ip = 192.0.2.7; cost 1 by the policy; override 192.0.2.0/24 on line 12"
    );
}

#[test]
fn what_is_wrong_with_a_request_is_said_where_it_is_and_the_rest_goes_on() {
    let config = parse(FILE).unwrap();
    let headers: &[(&str, &[u8])] = &[("x-strict", b"1"), ("x-team", b"t"), ("x-cost", b"8")];
    let facts = facts("POST /login", headers, "203.0.113.9");
    let request = Request::new(&facts, &config.client_ip).unwrap();
    let explanation = config.policies.explain(&request, None, &());
    assert_eq!(
        lines(&config, &explanation)[1..4],
        [
            "login error `x-cost`, the cost of policy `login`, is a whole number from 1 to 7",
            "door replaced strict",
            "strict error policy `strict` needs its key, and nothing of [header:x-user, [header:x-team, cookie:sid]] is there",
        ]
    );
    assert_eq!(explanation.error, config.policies.plan(&request, None).err());
    // Asked for a cost, no header says one.
    let explanation = config.policies.explain(&request, Some(3), &());
    assert_eq!(lines(&config, &explanation)[1], "login applies ip = 203.0.113.9; cost 3 as asked");
}

#[test]
fn a_policy_that_takes_the_place_of_another_is_named() {
    let headers: &[(&str, &[u8])] = &[("x-strict", b"1"), ("x-user", b"u")];
    assert_eq!(
        explained(&facts("GET /x", headers, "203.0.113.9"))[2..4],
        ["door replaced strict", "strict applies header:x-user = u; cost 1 by the policy"]
    );
}

#[test]
fn a_policy_that_is_named_is_explained_alone() {
    let config = parse(FILE).unwrap();
    let named = |policy: &str, key: &str| {
        let call = Call { key: Some(key), keys: &[("tenant", "t")], cost: 3 };
        let call = if policy == "api" { call } else { Call { keys: &[], ..call } };
        let index = config.policy_index(policy).unwrap();
        config
            .policies
            .explain_named(index, &call, &())
            .map(|explanation| lines(&config, &explanation).concat())
    };
    assert_eq!(
        named("api", "partner-1").unwrap(),
        "api applies header:x-api-key = partner-1; cost 3 as asked; override partner-* on line 11"
    );
    assert_eq!(named("login", "2001:DB8::1").unwrap(), "login applies ip = 2001:db8::/64; cost 3 as asked");
    assert_eq!(named("asleep", "k").unwrap(), "asleep off");
    assert_eq!(named("door", "").unwrap_err().to_string(), "`key` is empty");
}

/// What a policy that applies does, all of it.
fn shown(policies: &Policies, applied: &Applied<'_>) -> String {
    let checks: Vec<String> = applied
        .checks()
        .map(|(place, check)| format!("{place} {:?} {:?} {}", check.limit, check.key.parts(), check.cost))
        .collect();
    let does = if let Does::Action(action) = applied.does { action.name() } else { "limits" };
    let name = policies[applied.policy].name();
    format!("{name} {} {does} {:?} {} {checks:?}", applied.mode.name(), applied.by_override, applied.cost)
}

const MATCHES: [&str; 8] = [
    "",
    "match: { path: /a }, ",
    "match: { path: \"/a/**\" }, ",
    "match: { path: \"/{id}/b\" }, ",
    "match: { method: POST }, ",
    "match: { headers: { x-a: \"1*\" } }, ",
    "match: { host: \"*.example\" }, ",
    "match: { method: [GET, POST], path: \"/**\" }, ",
];
/// Keys, and overrides that can be theirs.
const KEYS: [(&str, &[&str]); 6] = [
    ("[ip]", &["", ADDRESSES]),
    ("[header:x-a]", &["", LIMITS, ACTIONS]),
    ("[header:x-a, ip]", &["", LIMITS, ACTIONS, ADDRESSES]),
    ("[[header:x-a, header:x-b]]", &["", ", overrides: [{ key: [\"1*\", \"*2\"], action: block }]"]),
    ("[global]", &[""]),
    ("[cookie:sid, ip]", &["", LIMITS, ADDRESSES]),
];
const LIMITS: &str = ", overrides: [{ key: \"1*\", limits: { l: 5/s } }]";
const ACTIONS: &str = ", overrides: [{ key: \"12\", action: block }, { key: \"1*\", action: bypass }]";
const ADDRESSES: &str = ", overrides: [{ key: 203.0.113.0/24, action: bypass }]";
const EXTRAS: [&str; 8] = [
    "",
    "group: g, ",
    "group: h, ",
    "replaces: [p0], ",
    "replaces: [p1, p2], ",
    "missing_key: reject, ",
    "missing_key: shared, ",
    "cost: { header: x-b, default: 1, max: 3 }, ",
];
proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// A file and a request of every kind: the applied set, its keys, costs, overrides and the error are the plan's.
    #[test]
    fn an_explanation_is_of_the_plan(
        policies in vec((0..MATCHES.len(), 0..KEYS.len(), 0..EXTRAS.len(), 0..4_usize, 0..6_usize), 3..24),
        method in 0..2_usize, path in 0..5_usize, a in 0..4_usize, b in 0..4_usize, peer in 0..3_usize,
        cost in 0..3_u64,
    ) {
        let mut file = "version: 1\nclient_ip: { trusted_proxies: [10.0.0.0/8] }\npolicies:\n".to_owned();
        for (i, (fits, key, extra, over, mode)) in policies.iter().enumerate() {
            let mode = ["mode: shadow, ", "mode: off, "].get(*mode).copied().unwrap_or_default();
            // The first ones are replaced by others, not by themselves.
            let extra = if i < 3 && EXTRAS[*extra].starts_with("replaces") { "" } else { EXTRAS[*extra] };
            let (key, overrides) = KEYS[*key];
            let over = overrides.get(*over).copied().unwrap_or_default();
            let _ = writeln!(
                file,
                "  - {{ name: p{i}, {}key: {}, {extra}{mode}limits: [{{ name: l, algorithm: gcra, limit: 4/s }}, {{ name: m, algorithm: gcra, limit: 4/s, key: [header:x-b] }}]{over} }}",
                MATCHES[*fits], key
            );
        }
        let config = parse(&file);
        prop_assume!(config.is_ok(), "{}", config.expect_err("a mistake").render());
        let config = config.expect("a good file");
        let values: [&[u8]; 4] = [b"", b"12", b"1", b"203.0.113.9"];
        let mut headers: Vec<(&str, &[u8])> = vec![("x-forwarded-for", b"203.0.113.9")];
        headers.extend((a > 0).then_some(("x-a", values[a])));
        headers.extend((b > 0).then_some(("x-b", values[b])));
        let request = format!("{} {}", ["GET", "POST"][method], ["/a", "/a/b", "/x/b", "/", "/a/b/c"][path]);
        let facts = facts(&request, &headers, ["10.0.0.1", "192.0.2.1", "nobody"][peer]);
        let request = Request::new(&facts, &config.client_ip).unwrap();
        let cost = cost.checked_sub(1);
        let explanation = config.policies.explain(&request, cost, &());
        prop_assert_eq!(explanation.policies.len(), config.policies.len());
        prop_assert_eq!(explanation.walk.as_ref().and_then(|walk| walk.client), request.client());
        match config.policies.plan(&request, cost) {
            Ok(plan) => {
                let planned: Vec<String> = plan.applied().iter().map(|one| shown(&config.policies, one)).collect();
                let told: Vec<String> = explanation.applied().map(|one| shown(&config.policies, one)).collect();
                prop_assert_eq!(planned, told);
                prop_assert_eq!(explanation.error, None);
            }
            Err(wrong) => prop_assert_eq!(explanation.error, Some(wrong)),
        }
    }
}

/// Holds for every key of the first policy.
struct ForAll(Act);

impl Exceptions for ForAll {
    fn find(&self, policy: usize, _: &Key<'_>) -> Option<(usize, &Act)> {
        (policy == 0).then_some((7, &self.0))
    }
}

/// What holds for a while is explained as it is decided: also where the file says that no limit is asked, or where no
/// limit would take part, so that the cost and the fate are others.
#[test]
fn exceptions_are_explained_as_they_are_planned() {
    let config = parse(
        "version: 1
policies:
  - name: p
    key: [header:x-user]
    cost: 5
    replaces: [other]
    limits: [{ name: l, algorithm: token-bucket, limit: 10/s, burst: 20 }]
    overrides: [{ key: blocked, action: block }]
  - name: other
    key: [ip]
    limits: [{ name: l, algorithm: gcra, limit: 10/s }]
",
    )
    .expect("a good file");
    let policy = &config.policies[0];
    let act = |exception: &Exception<'_>| ForAll(policy.exception(exception).expect("a good exception"));
    let numbers = Numbers { limit: Some("30/s"), ..Numbers::default() };
    let exceptions = [
        (act(&Exception::Action(Action::Block)), 1),
        (act(&Exception::Action(Action::Bypass)), 1),
        (act(&Exception::Limits(&[("l", numbers)])), 5),
    ];
    for user in ["blocked", "u"] {
        let headers: [(&str, &[u8]); 1] = [("x-user", user.as_bytes())];
        let facts = facts("GET /", &headers, "203.0.113.9");
        let request = Request::new(&facts, &config.client_ip).expect("a path");
        for (exception, cost) in &exceptions {
            let plan = config.policies.plan_except(&request, None, exception).expect("it can be decided");
            let explanation = config.policies.explain(&request, None, exception);
            let explained: Vec<_> = explanation.applied().collect();
            assert_eq!(format!("{explained:?}"), format!("{:?}", plan.applied()));
            assert_eq!((explained.len(), explained[0].cost, explained[0].by_exception), (1, *cost, Some(7)));
            assert_eq!(explained[0].by_override, None);

            let call = Call { key: Some(user), keys: &[], cost: 5 };
            let plan = config.policies.named_except(0, &call, exception).expect("a good call");
            let explanation = config.policies.explain_named(0, &call, exception).expect("a good call");
            let explained: Vec<_> = explanation.applied().collect();
            assert_eq!(format!("{explained:?}"), format!("{:?}", plan.applied()));
        }
    }
}
