//! Which policies apply to a request, by which keys, and at which cost.

use core::net::IpAddr;

use std::collections::HashMap;

use ratekeeper_core::{Key, MAX_KEY_BYTES, Part};
use ratekeeper_policy::{
    Act, Action, Applied, Call, Config, Does, Exceptions, Facts, Mode, PlanError, Request, Source, canonical,
};

use crate::parse;

/// The contract's sample: who is limited by what, with the paths that it is about.
const SAMPLE: &str = "version: 1
client_ip: { trusted_proxies: [10.0.0.0/8] }
policies:
  - name: api
    match: { path: \"/api/**\" }
    key: [header:x-api-key, ip]
    limits:
      - { name: burst,  algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: minute, algorithm: sliding-window-counter, limit: 300/minute }
      - { name: global, algorithm: gcra, limit: 10000/minute, burst: 500, key: [global] }
    overrides:
      - { key: \"partner-*\", limits: { minute: 3000/minute } }
      - { key: 192.0.2.0/24, action: bypass }
  - name: login
    match: { method: POST, path: /login }
    key: [ip]
    limits: [{ name: tries, algorithm: sliding-window-log, limit: 10 per 10m }]
    on_store_error: deny
  - name: sms
    match: { path: /sms }
    key: [header:x-user]
    missing_key: reject
    limits: [{ name: code, algorithm: fixed-window, limit: 1/minute, align: first-request }]
  - name: reports
    match: { path: \"/reports/{id}/**\" }
    key: [[path:id, ip]]
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
    Facts { method: Some(method), target: Some(target), host: Some("Shop.Example:8080"), headers, source }
}

fn shown(part: &Part<'_>) -> String {
    match part {
        Part::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Part::Address(address) => address.to_string(),
        other => format!("{other:?}"),
    }
}

/// `policy.limit KEY cost capacity` of each question, or what the policy does instead.
fn asked(config: &Config, applied: &Applied<'_>) -> Vec<String> {
    let policy = &config.policies[applied.policy];
    let mode = if applied.mode == Mode::Shadow { "shadow " } else { "" };
    if let Does::Action(action) = applied.does {
        return vec![format!("{mode}{} {}", policy.name(), action.name())];
    }
    let one = |(place, check): (usize, ratekeeper_core::Check<'_>)| {
        assert_eq!(check.limit.name(), policy.limits()[place].named.name());
        let key: Vec<String> = check.key.parts().iter().map(shown).collect();
        let (name, capacity) = (check.limit.name(), check.limit.limit().capacity());
        format!("{mode}{}.{name} {} {} of {capacity}", policy.name(), key.join("|"), check.cost)
    };
    applied.checks().map(one).collect()
}

fn plan(config: &Config, facts: &Facts<'_>) -> Result<Vec<String>, PlanError> {
    let request = Request::new(facts, &config.client_ip).expect("a path");
    let plan = config.policies.plan(&request, None)?;
    Ok(plan.applied().iter().flat_map(|applied| asked(config, applied)).collect())
}

#[test]
fn the_policies_of_the_sample_apply_to_what_they_are_about() {
    let config = parse(SAMPLE).unwrap();
    let key: &[(&str, &[u8])] = &[("X-Api-Key", b"k1")];
    assert_eq!(
        plan(&config, &facts("GET /api/orders?x=1", key, "203.0.113.9")).unwrap(),
        [
            "api.burst header:x-api-key|k1 1 of 20",
            "api.minute header:x-api-key|k1 1 of 300",
            "api.global global| 1 of 500"
        ]
    );
    // The first alternative that is present; an empty one is none.
    for headers in [&[][..], &[("x-api-key", b"" as &[u8])], &[("x-api-key", b"  ")]] {
        let asked = plan(&config, &facts("GET /api", headers, "203.0.113.9")).unwrap();
        assert_eq!(asked[0], "api.burst ip|203.0.113.9 1 of 20", "{headers:?}");
    }
    let none: [&str; 0] = [];
    assert_eq!(plan(&config, &facts("GET /login", &[], "203.0.113.9")).unwrap(), none);
    assert_eq!(
        plan(&config, &facts("POST //login/", &[], "203.0.113.9")).unwrap(),
        ["login.tries ip|203.0.113.9 1 of 10"]
    );
    let forwarded: &[(&str, &[u8])] = &[("x-forwarded-for", b"198.51.100.1, 203.0.113.9")];
    assert_eq!(
        plan(&config, &facts("POST /login", forwarded, "10.0.0.4")).unwrap(),
        ["login.tries ip|203.0.113.9 1 of 10"]
    );
    assert_eq!(
        plan(&config, &facts("GET /reports/7/x", &[], "203.0.113.9")).unwrap(),
        ["shadow reports.daily path:id,ip|7|203.0.113.9 1 of 1000"]
    );
    // No limit has a key.
    assert_eq!(plan(&config, &facts("POST /login", &[], "nobody")).unwrap(), none);
}

#[test]
fn overrides_change_the_limits_of_their_keys_and_of_no_others() {
    let config = parse(SAMPLE).unwrap();
    let with_key = |key: &'static str| {
        plan(&config, &facts("GET /api", &[("x-api-key", key.as_bytes())], "203.0.113.9")).unwrap()
    };
    assert_eq!(with_key("partner-7")[1], "api.minute header:x-api-key|partner-7 1 of 3000");
    assert_eq!(with_key("partner-7")[0], "api.burst header:x-api-key|partner-7 1 of 20");
    assert_eq!(with_key("partne-7")[1], "api.minute header:x-api-key|partne-7 1 of 300");
    // An address is one only where the client's address is looked at (B117).
    assert_eq!(with_key("192.0.2.7")[1], "api.minute header:x-api-key|192.0.2.7 1 of 300");
    for address in ["192.0.2.7", "::ffff:192.0.2.255", "64:ff9b::192.0.2.0"] {
        assert_eq!(plan(&config, &facts("GET /api", &[], address)).unwrap(), ["api bypass"], "{address}");
    }
    assert_eq!(plan(&config, &facts("GET /api", &[], "192.0.3.0")).unwrap().len(), 3);
}

#[test]
fn overrides_of_addresses_look_at_the_whole_address_not_at_the_network_that_is_counted() {
    let config = parse(
        "version: 1
policies:
  - name: p
    key: [ip]
    limits: [{ name: l, algorithm: gcra, limit: 10/s }]
    overrides: [{ key: \"2001:db8::7\", action: block }, { key: \"2001:db8::/48\", action: bypass }, { key: \"::/0\", limits: { l: 99/s } }]
",
    )
    .unwrap();
    let of = |address| plan(&config, &facts("GET /", &[], address)).unwrap();
    assert_eq!(of("2001:db8::7"), ["p block"]);
    assert_eq!(of("2001:db8::8"), ["p bypass"]);
    assert_eq!(of("2001:db8:1::8"), ["p.l ip|2001:db8:1:: 1 of 99"]);
    assert_eq!(of("192.0.2.1"), ["p.l ip|192.0.2.1 1 of 10"]);
}

#[test]
fn the_first_override_that_fits_counts_whatever_kind_it_is() {
    let mut file = "version: 1
policies:
  - name: p
    key: [header:x-user, [header:x-a, header:x-b]]
    limits: [{ name: l, algorithm: gcra, limit: 10/s }]
    overrides:
"
    .to_owned();
    for (key, limit) in [
        ("\"a*z\"", 11),
        ("\"ab\"", 12),
        ("\"a*\"", 13),
        ("\"abz\"", 14),
        ("\"*\"", 15),
        ("[\"t\", \"*\"]", 16),
        ("[\"*\", \"x\"]", 17),
    ] {
        file += &format!("      - {{ key: {key}, limits: {{ l: {limit}/s }} }}\n");
    }
    let config = parse(&file).unwrap();
    let of = |headers: &[(&str, &[u8])]| {
        let asked = plan(&config, &facts("GET /", headers, "x")).unwrap();
        asked[0].rsplit(' ').next().unwrap().to_owned()
    };
    // A text without a name is of the first alternative that is text.
    for (user, limit) in [("az", "11"), ("abz", "11"), ("ab", "12"), ("abc", "13"), ("b", "15")] {
        assert_eq!(of(&[("x-user", user.as_bytes())]), limit, "{user}");
    }
    assert_eq!(of(&[("x-a", b"t"), ("x-b", b"x")]), "16");
    assert_eq!(of(&[("x-a", b"u"), ("x-b", b"x")]), "17");
    assert_eq!(of(&[("x-a", b"u"), ("x-b", b"y")]), "10");
}

/// Parts of a key never run together, and no text reaches the key of another kind (B116, B117).
#[test]
fn b117_names_of_different_kinds_are_different_keys() {
    let file = "version: 1
policies:
  - name: p
    key: [header:x-user, ip]
    missing_key: shared
    limits: [{ name: l, algorithm: gcra, limit: 10/s }]
";
    let config = parse(file).unwrap();
    let users =
        ["203.0.113.9", "global", "overflow", "*", "2:ip11:203.0.113.9", "ip=203.0.113.9", "missing", "ip"];
    let mut keys: Vec<String> = users
        .iter()
        .map(|user| {
            plan(&config, &facts("GET /", &[("x-user", user.as_bytes())], "203.0.113.9")).unwrap().concat()
        })
        .collect();
    keys.push(plan(&config, &facts("GET /", &[], "203.0.113.9")).unwrap().concat());
    keys.push(plan(&config, &facts("GET /", &[], "203.0.113.10")).unwrap().concat());
    keys.push(plan(&config, &facts("GET /", &[], "unknown")).unwrap().concat());
    assert_eq!(keys.last().unwrap(), "p.l missing| 1 of 10");
    let distinct: std::collections::HashSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
}

#[test]
fn keys_are_found_wherever_they_are() {
    let one = |key: &str, target: &str, headers: &[(&str, &[u8])]| {
        let file = format!(
            "version: 1\npolicies:\n  - name: p\n    match: {{ path: \"/t/{{id}}/**\" }}\n    key: [{key}]\n    missing_key: skip\n    limits: [{{ name: l, algorithm: gcra, limit: 10/s }}]\n"
        );
        let config = parse(&file).expect(&file);
        let asked = plan(&config, &facts(target, headers, "203.0.113.9")).unwrap();
        asked.first().map(|asked| asked.split(' ').nth(1).unwrap().to_owned())
    };
    let some = |key: &str| Some(key.to_owned());
    let none: &[(&str, &[u8])] = &[];
    assert_eq!(one("path:id", "GET /t/7", none), some("path:id|7"));
    assert_eq!(one("path", "GET /t/7//x/../%79?z", none), some("path|/t/7/y"));
    assert_eq!(one("host", "GET /t/7", none), some("host|shop.example"));
    assert_eq!(one("method", "PUT /t/7", none), some("method|PUT"));
    assert_eq!(
        one("query:k", "GET /t/7?a=b&k=&k=x%79+z&k=n", none).as_deref().map(|k| k.replace(' ', "_")),
        some("query:k|xy")
    );
    assert_eq!(one("query:k", "GET /t/7?kk=1&%6b=2", none), some("query:k|2"));
    assert_eq!(one("query:k", "GET /t/7?k=%zz%4", none), some("query:k|%zz%4"));
    assert_eq!(one("query:k", "GET /t/7", none), None);
    let cookies: &[(&str, &[u8])] = &[("cookie", b"a=1; sid=; b"), ("Cookie", b" sid=\"x=y\" ;sid=z")];
    assert_eq!(one("cookie:sid", "GET /t/7", cookies), some("cookie:sid|x=y"));
    assert_eq!(one("cookie:SID", "GET /t/7", cookies), None);
    assert_eq!(
        one("[path:id, method, host]", "PUT /t/7", none),
        some("path:id,method,host|7|PUT|shop.example")
    );
    assert_eq!(one("[path:id, header:x-a], ip", "PUT /t/7", none), some("ip|203.0.113.9"));
}

#[test]
fn a_missing_key_skips_shares_or_is_refused() {
    let file = |missing: &str| {
        parse(&format!(
            "version: 1\npolicies:\n  - name: p\n    key: [header:x-user]\n    missing_key: {missing}\n    limits:\n      - {{ name: own, algorithm: gcra, limit: 10/s }}\n      - {{ name: tenant, algorithm: gcra, limit: 10/s, key: [header:x-tenant] }}\n      - {{ name: all, algorithm: gcra, limit: 10/s, key: [global] }}\n"
        ))
        .unwrap()
    };
    let user: &[(&str, &[u8])] = &[("x-user", b"u")];
    // A key that is missing takes nothing away from the limits that have theirs.
    assert_eq!(
        plan(&file("skip"), &facts("GET /", user, "x")).unwrap(),
        ["p.own header:x-user|u 1 of 10", "p.all global| 1 of 10"]
    );
    assert_eq!(plan(&file("skip"), &facts("GET /", &[], "x")).unwrap(), ["p.all global| 1 of 10"]);
    assert_eq!(
        plan(&file("shared"), &facts("GET /", user, "x")).unwrap(),
        ["p.own header:x-user|u 1 of 10", "p.tenant missing| 1 of 10", "p.all global| 1 of 10"]
    );
    let refused = plan(&file("reject"), &facts("GET /", user, "x")).unwrap_err();
    assert_eq!(refused.to_string(), "policy `p` needs its key, and nothing of [header:x-tenant] is there");
}

#[test]
fn a_key_is_never_cut() {
    let config = parse(SAMPLE).unwrap();
    let long = vec![b'x'; MAX_KEY_BYTES];
    let longer = vec![b'x'; MAX_KEY_BYTES + 1];
    assert!(plan(&config, &facts("GET /api", &[("x-api-key", &long)], "x")).is_ok());
    let wrong = plan(&config, &facts("GET /api", &[("x-api-key", &longer)], "x")).unwrap_err();
    assert_eq!(wrong.to_string(), "the key of policy `api` is longer than 1024 bytes");
}

#[test]
fn the_cost_is_what_the_caller_says_else_the_policy() {
    let file = |cost: &str| {
        parse(&format!("version: 1\npolicies:\n  - name: p\n    key: [ip]\n    cost: {cost}\n    limits: [{{ name: l, algorithm: gcra, limit: 10/s }}]\n")).unwrap()
    };
    let cost = |config: &Config, line: Option<&str>, said: Option<u64>| {
        let headers: Vec<(&str, &[u8])> = line.iter().map(|line| ("X-Cost", line.as_bytes())).collect();
        let facts = facts("GET /", &headers, "203.0.113.9");
        let request = Request::new(&facts, &config.client_ip).unwrap();
        config.policies.plan(&request, said).map(|plan| plan.applied()[0].cost)
    };
    assert_eq!(cost(&file("5"), None, None), Ok(5));
    assert_eq!(cost(&file("5"), None, Some(3)), Ok(3));
    let by_header = file("{ header: x-cost, default: 2, max: 7 }");
    assert_eq!(cost(&by_header, None, None), Ok(2));
    assert_eq!(cost(&by_header, Some("7"), None), Ok(7));
    assert_eq!(cost(&by_header, Some(" 07 "), None), Ok(7));
    assert_eq!(cost(&by_header, Some("9"), Some(9)), Ok(9));
    let two: &[(&str, &[u8])] = &[("x-cost", b"1"), ("X-Cost", b"7")];
    assert!(matches!(plan(&by_header, &facts("GET /", two, "203.0.113.9")), Err(PlanError::Cost { .. })));
    // What only shows itself never makes a request bad input: it does not apply.
    let shadow = parse("version: 1\npolicies:\n  - name: p\n    key: [header:x-user]\n    missing_key: reject\n    mode: shadow\n    limits: [{ name: l, algorithm: gcra, limit: 10/s }]\n").unwrap();
    assert_eq!(plan(&shadow, &facts("GET /", &[], "x")), Ok(vec![]));
    for wrong in ["8", "0", "-1", "+1", "1.5", "many", "1,1", "18446744073709551616"] {
        let wrong = cost(&by_header, Some(wrong), None).unwrap_err();
        assert_eq!(wrong.to_string(), "`x-cost`, the cost of policy `p`, is a whole number from 1 to 7");
    }
}

/// A policy with one limit, as a line of a file.
fn line(rest: &str) -> String {
    format!("  - {{ key: [ip], limits: [{{ name: l, algorithm: gcra, limit: 10/s }}], {rest} }}\n")
}

/// The names of the policies that apply to `GET /x/y`.
fn applying(lines: &[&str]) -> Vec<String> {
    let file = format!("version: 1\npolicies:\n{}", lines.iter().map(|rest| line(rest)).collect::<String>());
    let config = parse(&file).expect(&file);
    let facts = facts("GET /x/y", &[], "203.0.113.9");
    let request = Request::new(&facts, &config.client_ip).expect("a path");
    let plan = config.policies.plan(&request, None).expect("a plan");
    plan.applied().iter().map(|applied| config.policies[applied.policy].name().to_string()).collect()
}

#[test]
fn of_a_group_the_first_that_applies_counts() {
    assert_eq!(
        applying(&[
            "name: a, group: g, match: { path: /x }",
            "name: b, group: g, match: { path: \"/x/*\" }",
            "name: c, group: g",
            "name: d, group: h",
            "name: e"
        ]),
        ["b", "d", "e"]
    );
    // Neither what is off nor what only shows itself takes the place of what is enforced.
    assert_eq!(
        applying(&[
            "name: a, group: g, mode: off",
            "name: b, group: g, mode: shadow",
            "name: c, group: g",
            "name: d, group: g, mode: shadow"
        ]),
        ["b", "c"]
    );
    // One without its key does not apply, so the next one does.
    let first = "  - { name: a, group: g, key: [header:x], missing_key: skip, limits: [{ name: l, algorithm: gcra, limit: 10/s }] }\n";
    let config = parse(&format!("version: 1\npolicies:\n{first}{}", line("name: b, group: g"))).unwrap();
    assert_eq!(plan(&config, &facts("GET /", &[], "203.0.113.9")).unwrap(), ["b.l ip|203.0.113.9 1 of 10"]);
}

#[test]
fn a_policy_replaces_others_where_it_applies_itself() {
    let lines = |mode: &str| {
        applying(&[
            "name: a",
            &format!("name: b, replaces: [a, d], match: {{ path: \"/x/**\" }}, mode: {mode}"),
            "name: c, replaces: [e], match: { path: /z }",
            "name: d",
            "name: e",
        ])
    };
    assert_eq!(lines("enforce"), ["b", "e"]);
    assert_eq!(lines("shadow"), ["a", "b", "d", "e"]);
    assert_eq!(lines("off"), ["a", "d", "e"]);
}

/// What takes the place of a policy does so also where that one could not be decided, and a policy that is replaced
/// keeps no other of its group out.
#[test]
fn what_is_replaced_is_no_error_and_keeps_nobody_out() {
    let plan_of = |first: &str| {
        let file = format!(
            "version: 1\npolicies:\n{}",
            first.to_owned() + &line("name: b, group: g") + &line("name: c, replaces: [a]")
        );
        plan(&parse(&file).expect(&file), &facts("GET /", &[], "203.0.113.9")).unwrap()
    };
    let first = "  - { name: a, group: g, key: [KEY], missing_key: reject, limits: [{ name: l, algorithm: gcra, limit: 10/s }] }\n";
    for key in ["ip", "header:x"] {
        let left = plan_of(&first.replace("KEY", key));
        assert_eq!(left, ["b.l ip|203.0.113.9 1 of 10", "c.l ip|203.0.113.9 1 of 10"], "{key}");
    }
}

/// A text without a name is of one alternative: nobody comes by the override of another by sending its text elsewhere.
#[test]
fn an_override_is_of_one_alternative_and_never_of_those_without_a_key() {
    let config = parse(
        "version: 1
policies:
  - name: p
    key: [header:x-a, header:x-b, ip]
    missing_key: shared
    limits: [{ name: l, algorithm: gcra, limit: 10/s }, { name: all, algorithm: gcra, limit: 10/s, key: [global] }]
    overrides: [{ key: \"vip*\", action: bypass }, { key: \"header:x-a=*\", action: block }, { key: \"header:x-b=*\", action: bypass }]
",
    )
    .unwrap();
    let of = |headers: &[(&str, &[u8])], ip| plan(&config, &facts("GET /", headers, ip)).unwrap();
    assert_eq!(of(&[("x-a", b"vip-1")], "x"), ["p bypass"]);
    assert_eq!(of(&[("x-a", b"u")], "x"), ["p block"]);
    assert_eq!(of(&[("x-b", b"u")], "x"), ["p bypass"]);
    assert_eq!(of(&[], "203.0.113.9")[0], "p.l ip|203.0.113.9 1 of 10");
    assert_eq!(of(&[], "x")[0], "p.l missing| 1 of 10", "the empty value of those without a key is nobody's");
    let call = Call { key: None, keys: &[("l", "vip-1")], cost: 1 };
    assert!(config.policies.named(0, &call).is_ok());
}

/// A query of nothing but separators hides no parameter (B119).
#[test]
fn a_parameter_is_found_behind_any_number_of_others() {
    let config = parse("version: 1\npolicies:\n  - { name: p, key: [query:user, ip], limits: [{ name: l, algorithm: gcra, limit: 10/s }] }\n").unwrap();
    for before in ["&".repeat(5_000), "a=1&".repeat(1_000)] {
        let target = format!("GET /?{before}user=u");
        assert_eq!(plan(&config, &facts(&target, &[], "203.0.113.9")).unwrap(), ["p.l query:user|u 1 of 10"]);
    }
}

#[test]
fn an_action_needs_no_key_unless_the_file_says_so() {
    let of = |missing: &str| {
        let file =
            format!("version: 1\npolicies:\n  - {{ name: p, key: [header:x], action: block{missing} }}\n");
        plan(&parse(&file).expect(&file), &facts("GET /", &[], "203.0.113.9"))
    };
    assert_eq!(of(""), Ok(vec!["p block".to_owned()]));
    assert_eq!(of(", missing_key: shared"), Ok(vec!["p block".to_owned()]));
    assert_eq!(of(", missing_key: skip"), Ok(vec![]));
    assert!(matches!(of(", missing_key: reject"), Err(PlanError::MissingKey { .. })));
}

/// Whoever is blocked is blocked, also without what only the limits need.
#[test]
fn a_blocked_key_needs_no_key_of_a_limit() {
    let config = parse("version: 1\npolicies:\n  - name: p\n    key: [ip]\n    missing_key: reject\n    limits: [{ name: l, algorithm: gcra, limit: 10/s, key: [header:x] }]\n    overrides: [{ key: 203.0.113.9, action: block }]\n").unwrap();
    assert_eq!(plan(&config, &facts("GET /", &[], "203.0.113.9")), Ok(vec!["p block".to_owned()]));
    assert!(plan(&config, &facts("GET /", &[], "203.0.113.8")).is_err());
}

#[test]
fn more_than_sixteen_enforced_limits_are_too_many() {
    let lines = |n: usize, mode: &str| {
        let policies: String = (0..n).map(|i| line(&format!("name: p{i}"))).collect();
        let more = line(&format!("name: more, mode: {mode}"));
        parse(&format!("version: 1\npolicies:\n{policies}{more}")).unwrap()
    };
    let facts = facts("GET /", &[], "203.0.113.9");
    assert_eq!(plan(&lines(15, "enforce"), &facts).unwrap().len(), 16);
    // What only shows itself is decided by itself.
    assert_eq!(plan(&lines(16, "shadow"), &facts).unwrap().len(), 17);
    let wrong = plan(&lines(16, "enforce"), &facts).unwrap_err();
    let PlanError::TooManyLimits { policies } = &wrong else { panic!("{wrong:?}") };
    assert_eq!(policies.len(), 17);
    assert!(wrong.to_string().starts_with("more than 16 limits meet: those of `p0`, `p1`"), "{wrong}");
}

#[test]
fn actions_need_no_key_and_overrides_can_undo_them() {
    let config = parse(
        "version: 1
policies:
  - { name: health, match: { path: /healthz }, action: bypass }
  - name: closed
    match: { path: \"/admin/**\" }
    key: [ip]
    action: block
    overrides: [{ key: 192.0.2.0/24, action: bypass }]
",
    )
    .unwrap();
    let of = |target, ip| plan(&config, &facts(target, &[], ip)).unwrap();
    assert_eq!(of("GET /healthz", "unknown"), ["health bypass"]);
    assert_eq!(of("GET /admin/x", "unknown"), ["closed block"]);
    assert_eq!(of("GET /admin/x", "203.0.113.9"), ["closed block"]);
    assert_eq!(of("GET /admin/x", "192.0.2.9"), ["closed bypass"]);
    assert!(matches!(
        config.policies[1].overrides().as_slice()[0].act().does(),
        Does::Action(Action::Bypass)
    ));
}

/// What is different for some keys, by policy and canonical key.
#[derive(Default)]
struct Excepted(HashMap<(usize, Vec<u8>), Act>);

impl Exceptions for Excepted {
    fn find(&self, policy: usize, key: &Key<'_>) -> Option<(usize, &Act)> {
        self.0.get(&(policy, canonical(key))).map(|act| (7, act))
    }
}

#[test]
fn exceptions_go_before_overrides_and_costs_are_those_of_what_is_done() {
    let config = parse(
        "version: 1
policies:
  - name: p
    key: [header:x-user, ip]
    cost: { header: x-cost, default: 2, max: 9 }
    limits: [{ name: l, algorithm: gcra, limit: 10/s, burst: 10 }]
    overrides: [{ key: \"free-*\", action: bypass }]
  - name: doors
    key: [header:x-user]
    action: block
",
    )
    .unwrap();
    let mut excepted = Excepted::default();
    let limits = Act::Limits(config.policies[0].limits().to_vec());
    for (policy, user, act) in [
        (0, "out", Act::Action(Action::Block)),
        (0, "free-1", limits),
        (1, "in", Act::Action(Action::Bypass)),
    ] {
        excepted.0.insert((policy, canonical(&Key::from(("header:x-user", user)))), act);
    }
    let done = |user: &str, cost: &str| {
        let headers: &[(&str, &[u8])] = &[("x-user", user.as_bytes()), ("x-cost", cost.as_bytes())];
        let facts = facts("GET /", headers, "203.0.113.9");
        let request = Request::new(&facts, &config.client_ip).expect("a path");
        let plan = config.policies.plan_except(&request, None, &excepted)?;
        let told = plan.applied().iter().flat_map(|applied| {
            let by = (applied.by_exception.is_some(), applied.by_override.is_some());
            assert!(by != (true, true), "one of them says so");
            asked(&config, applied)
        });
        Ok::<_, PlanError>(told.collect::<Vec<_>>())
    };
    assert_eq!(done("u", "3").unwrap(), ["p.l header:x-user|u 3 of 10", "doors block"]);
    assert_eq!(done("out", "3").unwrap(), ["p block", "doors block"]);
    assert_eq!(done("free-2", "3").unwrap(), ["p bypass", "doors block"]);
    // Limits again, and so with what the request says it costs.
    assert_eq!(done("free-1", "3").unwrap(), ["p.l header:x-user|free-1 3 of 10", "doors block"]);
    assert!(matches!(done("free-1", "x"), Err(PlanError::Cost { .. })));
    // Nobody is asked what a blocked request costs.
    assert_eq!(done("out", "x").unwrap(), ["p block", "doors block"]);
    assert_eq!(done("in", "1").unwrap(), ["p.l header:x-user|in 1 of 10", "doors bypass"]);

    let named = |policy: usize, key: &str| {
        let call = Call { key: Some(key), keys: &[], cost: 1 };
        let plan = config.policies.named_except(policy, &call, &excepted).expect("a good call");
        plan.applied().iter().flat_map(|applied| asked(&config, applied)).collect::<Vec<_>>()
    };
    assert_eq!(named(0, "out"), ["p block"]);
    assert_eq!(named(0, "ip=203.0.113.9"), ["p.l ip|203.0.113.9 1 of 10"]);
    // No limit of the policy needs the key, and its exceptions are found all the same.
    assert_eq!(
        (named(1, "in"), named(1, "out")),
        (vec!["doors bypass".to_owned()], vec!["doors block".to_owned()])
    );
}

/// They are held against each request one by one, so there are few of them.
#[test]
fn overrides_that_cannot_be_looked_up_are_few() {
    let of = |n: usize, key: &str| {
        let item = |n| format!("      - {{ key: {}, action: block }}\n", key.replace('N', &format!("n{n}")));
        let overrides: String = (0..n).map(item).collect();
        let file = format!(
            "version: 1\npolicies:\n  - name: p\n    key: [header:x, [header:a, header:b]]\n    action: bypass\n    overrides:\n{overrides}"
        );
        parse(&file).map(|_| ()).map_err(|errors| errors.items[0].code)
    };
    for key in ["\"*N\"", "[N, \"*\"]"] {
        assert_eq!((of(100, key), of(101, key)), (Ok(()), Err("too-many-overrides")), "{key}");
    }
    assert_eq!(of(1_000, "\"N*\""), Ok(()));
}
