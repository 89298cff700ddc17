use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::facts::Facts;
use crate::glob::Glob;

fn policies() -> impl Strategy<Value = Vec<Match>> {
    let methods = vec(select(vec!["GET", "POST", "PUT"]), 0..3);
    let path = option::of("(/(a|b|ab|\\*|a\\*|\\{x\\})){1,3}(/\\*\\*)?|/|/\\*\\*");
    let host = option::of(select(vec!["a.example", "b.example", "*.example", "*"]));
    let headers = option::of(select(vec!["1", "*"]));
    let one = (methods, path, host, headers).prop_filter_map(
        "names in braces differ",
        |(methods, path, host, header)| {
            Some(Match {
                methods: methods.into_iter().map(Into::into).collect(),
                path: path.map(|text| PathPattern::parse(&text)).transpose().ok()?,
                host: host.map(Glob::parse_host).transpose().ok()?,
                headers: header
                    .map(|text| Some(("x".into(), Glob::parse(text).ok()?)))
                    .into_iter()
                    .collect::<Option<_>>()?,
            })
        },
    );
    vec(one, 0..20)
}

fn fitting(policies: &[Match], seen: &Seen<'_>) -> Vec<usize> {
    (0..policies.len()).filter(|policy| policies[*policy].fits(seen).is_ok()).collect()
}

proptest! {
    #[test]
    fn nobody_who_fits_is_missing(
        policies in policies(),
        method in option::of(select(vec!["GET", "POST", "HEAD"])),
        target in option::of("(/(a|b|ab|aa)){1,5}/?|/|\\*"),
        host in option::of(select(vec!["a.example", "B.example:80", "c.test"])),
        header in option::of(Just("1")),
    ) {
        let headers: Vec<(&str, &[u8])> = header.iter().map(|value| ("X", value.as_bytes())).collect();
        let facts = Facts { method, target: target.as_deref(), host, headers: &headers, ..Facts::default() };
        let seen = Seen::new(&facts).unwrap();
        let index = Index::new(&policies);
        let candidates: Vec<usize> = index.candidates(&seen).collect();
        prop_assert!(candidates.is_sorted_by(|a, b| a < b), "each once, in the order of the file");
        let found: Vec<usize> = candidates.into_iter().filter(|policy| policies[*policy].fits(&seen).is_ok()).collect();
        prop_assert_eq!(found, fitting(&policies, &seen));
    }
}

fn on_path(text: &str) -> Match {
    Match { path: Some(PathPattern::parse(text).unwrap()), ..Match::default() }
}

fn candidates(policies: &[Match], facts: &Facts<'_>) -> Vec<usize> {
    Index::new(policies).candidates(&Seen::new(facts).unwrap()).collect()
}

#[test]
fn policies_for_other_paths_hosts_and_methods_are_not_asked() {
    let mut policies: Vec<Match> = (0..1_000).map(|i| on_path(&format!("/service{i}/**"))).collect();
    policies.extend((0..1_000).map(|i| on_path(&format!("/exact/{i}"))));
    policies.extend((0..1_000).map(|i| Match {
        host: Some(Glob::parse_host(&format!("h{i}.example")).unwrap()),
        ..on_path("/api/**")
    }));
    policies.extend((0..1_000).map(|i| Match {
        host: Some(Glob::parse_host(&format!("h{i}.example")).unwrap()),
        ..Match::default()
    }));
    policies.extend(["GET", "POST"].map(|method| Match { methods: vec![method.into()], ..Match::default() }));
    let facts = |target| Facts {
        method: Some("POST"),
        target: Some(target),
        host: Some("h7.example"),
        ..Facts::default()
    };
    assert_eq!(candidates(&policies, &facts("/service5/x")), [5, 3_007, 4_001]);
    assert_eq!(candidates(&policies, &facts("/exact/5")), [1_005, 3_007, 4_001]);
    assert_eq!(candidates(&policies, &facts("/api/x")), [2_007, 3_007, 4_001]);
    assert_eq!(candidates(&policies, &facts("*")), [3_007, 4_001]);
}

#[test]
fn more_methods_than_bits_are_told_apart_by_asking() {
    let method = |i: usize| Match { methods: vec![format!("M{i}").into()], ..Match::default() };
    let policies: Vec<Match> = (0..70).map(method).collect();
    for i in 0..70 {
        let name = format!("M{i}");
        let facts = Facts { method: Some(&name), ..Facts::default() };
        let found = candidates(&policies, &facts);
        assert!(found.contains(&i), "{i}: {found:?}");
        assert_eq!(found.len(), if i < 63 { 1 } else { 7 });
    }
}

#[test]
fn nothing_and_the_deepest_pattern_are_found() {
    assert_eq!(candidates(&[], &Facts::default()), [0; 0]);
    let deep = "/a".repeat(128);
    let policies = [on_path(&deep), on_path("/"), Match::default()];
    let facts = |target| Facts { target: Some(target), ..Facts::default() };
    assert_eq!(candidates(&policies, &facts(&deep)), [0, 2]);
    assert_eq!(candidates(&policies, &facts("/")), [1, 2]);
    assert_eq!(candidates(&policies, &facts(&format!("{deep}/a"))), [2]);
}
