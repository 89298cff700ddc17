use proptest::prelude::*;

use super::*;

fn glob(text: &str) -> Glob {
    Glob::parse(text).unwrap()
}

#[test]
fn a_star_is_any_run_and_the_rest_stands_for_itself() {
    for (pattern, yes, no) in [
        ("free", vec!["free"], vec!["", "fre", "freed", "Free"]),
        ("*", vec!["", "x", "a*b"], vec![]),
        ("free-*", vec!["free-", "free-x"], vec!["free", "xfree-"]),
        ("*-free", vec!["-free", "x-free"], vec!["free", "-freed"]),
        ("a*a", vec!["aa", "aba"], vec!["a", "ab"]),
        ("a*b*c", vec!["abc", "a-b-c", "abbcc"], vec!["ac", "acb", "bc"]),
        ("*ab*ab*", vec!["abab", "xababx"], vec!["ab", "aba", "aab"]),
        ("*aab*", vec!["aaab"], vec!["aab".strip_suffix('b').unwrap()]),
        ("[a-z]?", vec!["[a-z]?"], vec!["b1", "a"]),
        ("", vec![""], vec!["x"]),
    ] {
        let glob = glob(pattern);
        for (texts, fit) in [(yes, true), (no, false)] {
            for text in texts {
                assert_eq!(glob.matches(text.as_bytes()), fit, "{pattern} {text:?}");
            }
        }
        assert_eq!(glob.to_string(), pattern);
        assert_eq!(glob.is_exact(), !pattern.contains('*'));
        assert_eq!(glob.literal_prefix(), pattern.split('*').next().unwrap());
    }
    assert!(glob("\u{e9}*").matches(b"\xc3\xa9\xff"), "values need not be text");
}

#[test]
fn hosts_are_lower_case_and_say_what_they_are_not() {
    assert!(Glob::parse_host("API.Example.com").unwrap().matches(b"api.example.com"));
    assert_eq!(Glob::parse_host("API.Example.com").unwrap().to_string(), "API.Example.com");
    assert!(Glob::parse_host("[::1]").unwrap().matches(b"[::1]"));
    for (text, message, hint) in [
        ("http://a.example/x", "no scheme", "write `a.example`"),
        ("a.example/x", "no path", "write `a.example`"),
        ("a.example:80", "without their port", "write `a.example`"),
        ("[::1]:80", "without their port", "write `[::1]`"),
        ("a.example.", "without a dot", "write `a.example`"),
        ("straße.example", "ASCII", "xn--"),
        ("a.example b.example", "no spaces", "one pattern"),
        ("**.example", "no more than `*`", "write `*.example`"),
    ] {
        let fault = Glob::parse_host(text).unwrap_err();
        assert_eq!(fault.code, "bad-pattern");
        assert!(fault.message.contains(message) && fault.hint.unwrap().contains(hint), "{text}");
    }
}

#[test]
fn bounds_are_kept() {
    let long = "x".repeat(MAX_GLOB_BYTES);
    assert!(glob(&long).matches(long.as_bytes()));
    assert!(Glob::parse(&format!("{long}x")).unwrap_err().message.contains("1024 bytes"));
    let stars = "*a".repeat(MAX_GLOB_STARS);
    assert!(glob(&stars).matches("a".repeat(MAX_GLOB_STARS).as_bytes()));
    assert!(!glob(&stars).matches("a".repeat(MAX_GLOB_STARS - 1).as_bytes()));
    assert!(Glob::parse(&format!("{stars}*")).unwrap_err().message.contains("16 `*`"));
}

/// Each step of a search moves on in the text or shortens what is there of the piece, which each step forward made one
/// byte longer: so there are at most two for a byte.
#[test]
fn a_search_takes_time_in_proportion_to_the_text() {
    let piece = Piece::new(&[b"a".repeat(500).as_slice(), b"b"].concat());
    let text = b"a".repeat(10_000);
    let (mut length, mut shortened) = (0, 0);
    for byte in &text {
        let next = step(&piece.bytes, &piece.borders, length, *byte);
        shortened += (length + 1).saturating_sub(next);
        length = next;
    }
    assert!(shortened <= text.len(), "{shortened}");
    assert_eq!(piece.find(&text), None);
}

/// By trying every way to spread a text over the stars.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| fits(rest, &text[skip..])),
        [byte, rest @ ..] => text.first() == Some(byte) && fits(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn matches_as_if_every_way_were_tried(pattern in "[ab]{0,3}(\\*[ab]{1,4}){0,4}\\*?", text in "[ab]{0,14}") {
        prop_assert_eq!(glob(&pattern).matches(text.as_bytes()), fits(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn globs_meet_wherever_a_text_fits_both(
        a in "[ab]{0,3}(\\*[ab]{1,2}){0,2}\\*?", b in "[ab]{0,3}(\\*[ab]{1,2}){0,2}\\*?", text in "[ab]{0,6}",
    ) {
        let (a, b) = (glob(&a), glob(&b));
        if a.matches(text.as_bytes()) && b.matches(text.as_bytes()) {
            prop_assert!(a.can_meet(&b), "{a} {b} {text}");
        }
        prop_assert_eq!(a.can_meet(&b), b.can_meet(&a));
    }
}
