use proptest::prelude::*;

use super::*;

fn norm(target: &str) -> String {
    NormalPath::new(target).unwrap().unwrap().to_string()
}

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap()
}

fn fits(text: &str, target: &str) -> bool {
    pattern(text).matches(&NormalPath::new(target).unwrap().unwrap())
}

/// What is wrong, and what to write instead.
fn fault(text: &str) -> (String, String) {
    let fault = PathPattern::parse(text).expect_err(text);
    assert_eq!(fault.code, "bad-pattern");
    (fault.message, fault.hint.unwrap_or_default())
}

#[test]
fn spellings_of_one_path_are_one_path() {
    for (sent, path) in [
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/login", "/login"),
        ("/login/", "/login"),
        ("/login//", "/login"),
        ("//login", "/login"),
        ("/./login", "/login"),
        ("/x/../login", "/login"),
        ("/x//../login", "/login"),
        ("/login/.", "/login"),
        ("/login/x/..", "/login"),
        ("/%6Cogin", "/login"),
        ("/%6cogin", "/login"),
        ("/x/%2E%2e/login", "/login"),
        ("/x/.%2e/login", "/login"),
        ("/login?next=/a/../..", "/login"),
        ("/login?", "/login"),
        ("/login#top", "/login"),
        ("/login#top?x", "/login"),
        ("http://a.example/login", "/login"),
        ("HTTPS://u:p@a.example:8443/login?x", "/login"),
        ("http://a.example", "/"),
        ("http://a.example?x", "/"),
        ("/%7Euser", "/~user"),
        ("/a%2fb", "/a%2Fb"),
        ("/straße", "/stra%C3%9Fe"),
        ("/stra%c3%9fe", "/stra%C3%9Fe"),
        ("/a b", "/a%20b"),
        ("/a|b", "/a%7Cb"),
        (r"/a\b", "/a%5Cb"),
    ] {
        assert_eq!(norm(sent), path, "{sent}");
    }
}

#[test]
fn what_tells_paths_apart_is_kept() {
    for path in [
        "/Login",
        "/a;v=1/b",
        "/a/..;/b",
        "/a%2Fb",
        "/a%25b",
        "/a%252Eb",
        "/100%",
        "/100%/x",
        "/%",
        "/%4",
        "/%zz",
        "/...",
        "/.a",
        "/a:b",
        "/@me",
        "/a+b",
        "/a%2Bb",
        "/*",
        "/a,b=c&d",
        "/.well-known/x",
    ] {
        assert_eq!(norm(path), path);
    }
}

#[test]
fn a_percent_sign_alone_does_not_become_a_spelling() {
    assert_eq!(norm("/%%34%31"), "/%%341");
    assert_eq!(norm("/%4%31"), "/%4%31");
    assert_eq!(norm("/%25%34%31"), "/%2541", "this one was a `%` that is written as `%25`");
}

#[test]
fn a_path_that_is_normal_is_not_copied() {
    for target in ["/", "/api/v1/users", "/api/v1/users/?page=2", "/a;b/c%"] {
        let path = NormalPath::new(target).unwrap().unwrap();
        let is_borrowed = matches!(path.path, Cow::Borrowed(_));
        assert_eq!(is_borrowed, !target.contains('%'), "{target}");
    }
}

#[test]
fn nothing_is_above_the_root() {
    for target in
        ["/..", "/../a", "/a/../..", "/a/../../b", "/%2e%2e", "//..", "http://a.example/..", "/./../x?y"]
    {
        assert_eq!(NormalPath::new(target), Err(BadTarget::AboveRoot), "{target}");
    }
    assert_eq!(NormalPath::new("/a?x=/../.."), Ok(NormalPath::new("/a?x=/../..").unwrap()));
}

#[test]
fn a_target_without_a_path_has_none() {
    for target in ["*", "*?x", "a.example:443", "[2001:db8::1]:443"] {
        assert_eq!(NormalPath::new(target), Ok(None), "{target:?}");
    }
}

/// What is no target would be a path that no policy is about, and so a way around all of them.
#[test]
fn what_is_no_target_is_refused() {
    for target in [
        "",
        "?x",
        "#x",
        "a/b",
        "ftp://a.example/b",
        "://a/b",
        "http:/a",
        " /a",
        "a b:80",
        ":80",
        "a:",
        "a:b",
        "\\a",
    ] {
        assert_eq!(NormalPath::new(target), Err(BadTarget::NoTarget), "{target:?}");
    }
    let long = format!("/{}", "&".repeat(MAX_TARGET_BYTES));
    assert_eq!(NormalPath::new(&long), Err(BadTarget::TooLong));
    assert!(NormalPath::new(&long[..MAX_TARGET_BYTES]).is_ok());
}

#[test]
fn query_and_authority_are_kept_as_they_were_sent() {
    let path = NormalPath::new("http://u@A.example:80/x/?q=%41&r=?#f").unwrap().unwrap();
    assert_eq!((path.query(), path.authority()), (Some("q=%41&r=?"), Some("A.example:80")));
    let path = NormalPath::new("/x").unwrap().unwrap();
    assert_eq!((path.query(), path.authority()), (None, None));
}

#[test]
fn patterns_fit_what_they_say() {
    for (text, yes, no) in [
        ("/", "/ // /. /?x", "/a"),
        ("/login", "/login /login/ //login /%6Cogin", "/Login /login/x /logins /log / /x/login"),
        ("/**", "/ /a /a/b/c", ""),
        ("/api/**", "/api /api/ /api/x /api/x/y", "/ /apix /ap /v1/api"),
        ("/api/*", "/api/x /api/x/", "/api /api/x/y"),
        ("/*/x", "/a/x", "/x /a/y /a/b/x"),
        ("/api/*/x/**", "/api/a/x /api/a/x/b/c", "/api/x /api/a/y/x /api/a"),
        ("/v*/users", "/v1/users /v/users /v12/users", "/1/users /v1/user /users"),
        ("/files/*.png", "/files/a.png /files/.png /files/a.b.png", "/files/a.jpg /files/x/a.png"),
        ("/a*b*c", "/abc /axbxc /abbcc", "/ab /acb /abcd"),
        ("/users/{id}", "/users/7 /users/a%2Fb", "/users /users/7/x"),
        ("/users/{id}/**", "/users/7 /users/7/x/y", "/users"),
        ("/*/**", "/a /a/b", "/"),
        ("/a%2Fb", "/a%2Fb /a%2fb", "/a/b /ab"),
        ("/a;v=1", "/a;v=1", "/a"),
    ] {
        for (targets, fit) in [(yes, true), (no, false)] {
            for target in targets.split_whitespace() {
                assert_eq!(fits(text, target), fit, "{text} {target}");
            }
        }
        assert_eq!(pattern(text).to_string(), text);
    }
}

#[test]
fn names_in_braces_are_segments_of_the_path() {
    let pattern = pattern("/t/{tenant}/v*/{user-id}/**");
    assert_eq!(pattern.ids().collect::<Vec<_>>(), ["tenant", "user-id"]);
    let path = NormalPath::new("//t/acme/v2/%61%2Fb/x").unwrap().unwrap();
    assert_eq!(pattern.parameter(&path, "tenant"), Some("acme"));
    assert_eq!(pattern.parameter(&path, "user-id"), Some("a%2Fb"));
    assert_eq!(pattern.parameter(&path, "user"), None);
    let other = NormalPath::new("/u/acme/v2/a").unwrap().unwrap();
    assert_eq!(pattern.parameter(&other, "tenant"), None, "the path does not fit");
}

#[test]
fn what_is_no_pattern_says_what_to_write() {
    for (text, message, hint) in [
        ("api", "begins with `/`", "write `/api`"),
        ("*", "begins with `/`", "`/**` fits every path"),
        ("^/api", "begins with `/`", "no regular expression"),
        ("http://a/b", "begins with `/`", "`host`"),
        ("/a?x=1", "without its query", "write `/a`"),
        ("/a#x", "without its query", "write `/a`"),
        ("/a/**/b", "nothing comes after `**`", "`*` is one segment"),
        ("/a/**/**", "nothing comes after `**`", "`*` is one segment"),
        ("/a**", "a segment of its own", "`/**` any segments"),
        ("/***", "a segment of its own", "`/**` any segments"),
        ("/{}", "has no name", "1 to 64"),
        ("/{a b}", "`{a b}` is no name", "1 to 64"),
        ("/{*rest}", "no name", "a last `**` is any rest"),
        ("/x{id}", "a whole segment", "`*` a part of one"),
        ("/{a}{b}", "a whole segment", "`*` a part of one"),
        ("/{a}.json", "a whole segment", "`*` a part of one"),
        ("/{a", "a whole segment", ""),
        ("/a}", "a whole segment", ""),
        ("/{{a}}", "a whole segment", ""),
        ("/{a}/{a}", "`{a}` is there twice", "own name"),
        ("/api/", "without a slash at its end", "write `/api`, or `/api/**`"),
        ("/api/**/", "no path fits", "write `/api/**`"),
        ("//", "no path fits", "write `/`"),
        ("//api", "no path fits", "write `/api`"),
        ("/a//b/./{id}", "no path fits", "write `/a/b/{id}`"),
        ("/%41*", "no path fits", "write `/A*`"),
        ("/a%2fb", "no path fits", "write `/a%2Fb`"),
        ("/straße", "no path fits", "write `/stra%C3%9Fe`"),
        ("/a b", "no path fits", "write `/a%20b`"),
        ("/a/../b", "no `..`", "the path that it leads to"),
        ("/a/%2e%2e/b", "no `..`", "the path that it leads to"),
    ] {
        let (found, hinted) = fault(text);
        assert!(found.contains(message) && hinted.contains(hint), "{text}: {found}: {hinted}");
    }
}

#[test]
fn bounds_of_patterns_are_kept() {
    let long = format!("/{}", "a".repeat(MAX_PATTERN_BYTES - 1));
    assert!(fits(&long, &long));
    assert!(fault(&format!("{long}a")).0.contains("1024 bytes"));
    let deep = "/a".repeat(MAX_PATTERN_SEGMENTS);
    assert!(fits(&deep, &deep));
    assert!(fits(&format!("{deep}/**"), &deep));
    assert!(fault(&format!("{deep}/{{id}}")).0.contains("128 segments"));
    let name = "n".repeat(MAX_ID);
    assert_eq!(pattern(&format!("/{{{name}}}")).ids().count(), 1);
    assert!(fault(&format!("/{{{name}n}}")).0.contains("no name"));
}

const MAX_ID: usize = 64;

fn targets() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/"),
        Just("//"),
        Just("/."),
        Just("/.."),
        Just("a"),
        Just("B"),
        Just("%"),
        Just("%4"),
        Just("1"),
        Just("%34"),
        Just("%31"),
        Just("%2f"),
        Just("%2E"),
        Just("."),
        Just(";"),
        Just("ß"),
        Just("%c3"),
        Just("?"),
        Just("#"),
        Just(" "),
        Just("http://h"),
        Just("*"),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_normal_path_is_its_own_normal_form(target in prop_oneof![targets(), targets().prop_map(|t| format!("/{t}")), any::<String>()]) {
        if let Ok(Some(path)) = NormalPath::new(&target) {
            let text = path.as_str();
            prop_assert!(text.is_ascii() && text.starts_with('/'));
            prop_assert!(text == "/" || !text.ends_with('/'));
            prop_assert!(!text.contains("//"));
            prop_assert!(path.segments().all(|segment| segment != "." && segment != ".."));
            let again = NormalPath::new(text).unwrap().unwrap();
            prop_assert_eq!(again.as_str(), text);
        }
    }

    /// A pattern without wildcards that is accepted is the normal form of itself, and the other way round.
    #[test]
    fn a_literal_pattern_is_accepted_if_some_path_fits(target in targets().prop_map(|t| format!("/{t}"))) {
        prop_assume!(!target.contains(['*', '{', '}']));
        let is_normal = NormalPath::new(&target).is_ok_and(|path| path.is_some_and(|path| path.as_str() == target));
        prop_assert_eq!(PathPattern::parse(&target).is_ok(), is_normal, "{}", target);
    }

    #[test]
    fn patterns_meet_wherever_a_path_fits_both(
        a in "(/(a|b|ab|\\*|a\\*|\\*b)){0,3}(/\\*\\*)?", b in "(/(a|b|ab|\\*|a\\*|\\*b)){0,3}(/\\*\\*)?", path in "(/(a|b|ab)){0,4}",
    ) {
        let pattern = |text: &str| PathPattern::parse(if text.is_empty() { "/" } else { text }).unwrap();
        let (a, b) = (pattern(&a), pattern(&b));
        let path = NormalPath::new(if path.is_empty() { "/" } else { &path }).unwrap().unwrap();
        if a.matches(&path) && b.matches(&path) {
            prop_assert!(a.can_meet(&b) && b.can_meet(&a), "{a} {b} {path}");
        }
        prop_assert_eq!(a.can_meet(&b), b.can_meet(&a));
    }
}
