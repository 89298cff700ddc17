use super::*;

fn matching(methods: &[&str], path: Option<&str>, host: Option<&str>, headers: &[(&str, &str)]) -> Match {
    Match {
        methods: methods.iter().map(|method| (*method).into()).collect(),
        path: path.map(|text| PathPattern::parse(text).unwrap()),
        host: host.map(|text| Glob::parse_host(text).unwrap()),
        headers: headers.iter().map(|(name, value)| ((*name).into(), Glob::parse(value).unwrap())).collect(),
    }
}

const REQUEST: Facts<'static> = Facts {
    method: Some("GET"),
    target: Some("/login?x"),
    host: Some("A.Example:8080"),
    headers: &[("X-Plan", b"paid"), ("accept", b"*/*"), ("x-plan", b"free-2024")],
    source: crate::facts::Source::Unknown,
};

/// Why a request does not fit; the empty text if it does.
fn misfit(conditions: &Match, facts: &Facts<'_>) -> String {
    let seen = Seen::new(facts).unwrap();
    conditions.fits(&seen).map_or_else(|misfit| misfit.to_string(), |()| String::new())
}

#[test]
fn a_request_that_fits_meets_every_condition() {
    for conditions in [
        Match::any().clone(),
        matching(&["GET"], None, None, &[]),
        matching(
            &["POST", "GET"],
            Some("/login"),
            Some("a.example"),
            &[("x-plan", "free-*"), ("accept", "*/*")],
        ),
        matching(&[], Some("/**"), Some("*.example"), &[("x-plan", "paid")]),
    ] {
        assert_eq!(misfit(&conditions, &REQUEST), "", "{conditions}");
    }
}

#[test]
fn the_condition_that_fails_is_named() {
    for (conditions, text) in [
        (matching(&["POST"], None, None, &[]), "method GET is not POST"),
        (matching(&["POST", "PUT"], Some("/x"), None, &[]), "method GET is not one of POST, PUT"),
        (matching(&[], Some("/api/**"), None, &[]), "path /login is not under /api/"),
        (matching(&[], Some("/export"), None, &[]), "path /login is not /export"),
        (matching(&[], Some("/users/{id}"), None, &[]), "path /login does not fit /users/{id}"),
        (matching(&[], None, Some("b.example"), &[]), "host a.example is not b.example"),
        (matching(&[], None, Some("*.b.example"), &[]), "host a.example does not fit *.b.example"),
        (matching(&[], None, None, &[("x-user", "*")]), "header x-user is absent"),
        (matching(&[], None, None, &[("accept", "text/html")]), "header accept is not text/html"),
        (matching(&[], None, None, &[("x-plan", "trial-*")]), "header x-plan does not fit trial-*"),
    ] {
        assert_eq!(misfit(&conditions, &REQUEST), text);
    }
}

#[test]
fn what_is_not_known_does_not_fit() {
    let nothing = Facts::default();
    for (conditions, text) in [
        (matching(&["GET"], None, None, &[]), "the method is not known"),
        (matching(&[], Some("/**"), None, &[]), "there is no path"),
        (matching(&[], None, Some("*"), &[]), "the host is not known"),
        (matching(&[], None, None, &[("x", "*")]), "header x is absent"),
    ] {
        assert_eq!(misfit(&conditions, &nothing), text);
    }
    assert_eq!(misfit(Match::any(), &nothing), "");
    let options = Facts { target: Some("*"), ..REQUEST };
    assert_eq!(misfit(&matching(&[], Some("/**"), None, &[]), &options), "there is no path");
    assert!(Seen::new(&Facts { target: Some("/../x"), ..REQUEST }).is_err());
}

#[test]
fn methods_have_a_case_and_values_too() {
    let get = Facts { method: Some("get"), ..REQUEST };
    assert_eq!(misfit(&matching(&["GET"], None, None, &[]), &get), "method get is not GET");
    assert_eq!(
        misfit(&matching(&[], None, None, &[("x-plan", "Paid")]), &REQUEST),
        "header x-plan is not Paid"
    );
}

#[test]
fn hosts_are_compared_without_case_port_and_last_dot() {
    for (sent, compared) in [
        ("a.example", "a.example"),
        ("A.EXAMPLE.:443", "a.example"),
        ("a.example.", "a.example"),
        ("[2001:DB8::1]:80", "[2001:db8::1]"),
        ("[::1]", "[::1]"),
        ("::1", "::1"),
        ("a.example:", "a.example"),
        ("", ""),
        (":80", ""),
    ] {
        assert_eq!(normal_host(sent), compared, "{sent}");
        assert_eq!(normal_host(compared), compared);
    }
}

#[test]
fn a_host_in_the_target_counts_for_more_than_the_field() {
    let absolute = Facts { target: Some("http://B.example:80/x"), ..REQUEST };
    assert_eq!(Seen::new(&absolute).unwrap().host(), Some("b.example"));
}

#[test]
fn conditions_are_shown_in_the_words_of_the_file() {
    let all =
        matching(&["GET", "HEAD"], Some("/a/**"), Some("*.example"), &[("x-plan", "free-*"), ("y", "1")]);
    assert_eq!(
        all.to_string(),
        "method GET, HEAD, path /a/**, host *.example, header x-plan: free-*, header y: 1"
    );
    assert_eq!(matching(&["POST"], Some("/login"), None, &[]).to_string(), "method POST, path /login");
    assert_eq!(Match::any().to_string(), "every request");
}

#[test]
fn what_a_stranger_sent_is_escaped() {
    let facts = Facts { method: Some("G\u{1b}[2J"), host: Some("a\u{202e}b"), ..REQUEST };
    assert_eq!(misfit(&matching(&["GET"], None, None, &[]), &facts), r"method G\u{1b}[2J is not GET");
    assert_eq!(misfit(&matching(&[], None, Some("x"), &[]), &facts), r"host a\u{202e}b is not x");
}

#[test]
fn conditions_that_exclude_each_other_never_meet() {
    let path = |text: &str| matching(&[], Some(text), None, &[]);
    let host = |text: &str| matching(&[], None, Some(text), &[]);
    let method = |names: &[&str]| matching(names, None, None, &[]);
    for (a, b, meet) in [
        (path("/a"), path("/b"), false),
        (path("/a"), path("/a"), true),
        (path("/a/**"), path("/a"), true),
        (path("/a/**"), path("/b/**"), false),
        (path("/a/**"), path("/ab"), false),
        (path("/a/*"), path("/a"), false),
        (path("/a/*"), path("/*/b"), true),
        (path("/a/{id}"), path("/a/{id}/x"), false),
        (path("/v*/x"), path("/v1/x"), true),
        (path("/v*/x"), path("/w1/x"), false),
        (path("/a*"), path("/*b"), true),
        (host("a.example"), host("b.example"), false),
        (host("*.example"), host("a.example"), true),
        (host("*.example"), host("a.test"), false),
        (method(&["GET", "HEAD"]), method(&["POST"]), false),
        (method(&["GET", "HEAD"]), method(&["HEAD"]), true),
        (method(&["GET"]), path("/a"), true),
        (Match::any().clone(), path("/a"), true),
        // A request may carry the field twice.
        (matching(&[], None, None, &[("x", "a")]), matching(&[], None, None, &[("x", "b")]), true),
    ] {
        assert_eq!(a.can_meet(&b), meet, "{a} {b}");
        assert_eq!(b.can_meet(&a), meet, "{b} {a}");
    }
}
