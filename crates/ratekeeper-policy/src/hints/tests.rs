use super::*;

const ALGORITHMS: [&str; 6] =
    ["fixed-window", "sliding-window-log", "sliding-window-counter", "token-bucket", "leaky-bucket", "gcra"];

#[test]
fn a_slip_of_the_fingers_finds_its_name() {
    for (typed, meant) in [
        ("token-buket", "token-bucket"),
        ("tokenbucket", "token-bucket"),
        ("token_bucket", "token-bucket"),
        ("Token-Bucket", "token-bucket"),
        ("leeky-bucket", "leaky-bucket"),
        ("gcar", "gcra"),
        ("GCRA", "gcra"),
        ("fixed window", "fixed-window"),
        ("sliding-window-cuonter", "sliding-window-counter"),
    ] {
        assert_eq!(nearest(typed, ALGORITHMS), Some(meant), "{typed}");
    }
}

#[test]
fn what_is_far_from_every_name_finds_none() {
    for typed in ["", "x", "bucket", "round-robin", &"g".repeat(65), "日本"] {
        assert_eq!(nearest(typed, ALGORITHMS), None, "{typed}");
    }
    assert_eq!(did_you_mean("x", ["a1", "b2", "c3"]), "one of `a1`, `b2` or `c3`");
    assert_eq!(did_you_mean("x", ["http"]), "only `http`");
}

#[test]
fn shown_text_has_no_control_characters_and_an_end() {
    assert_eq!(shown("plain text, déjà 日本"), "plain text, déjà 日本");
    assert_eq!(shown("\u{1b}[31m\n\u{202e}"), "\\u{1b}[31m\\u{a}\\u{202e}");
    assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
    assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
}

#[test]
fn thousands_are_set_apart() {
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_000_000_000, "1,000,000,000")] {
        assert_eq!(thousands(number), text);
    }
}
