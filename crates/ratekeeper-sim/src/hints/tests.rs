use super::*;

#[test]
fn quotes_are_short_and_do_not_steer_a_terminal() {
    assert_eq!(quoted("a\u{1b}[31m\u{202e}b"), "`a\u{fffd}[31m\u{fffd}b`");
    assert_eq!(quoted(&"x".repeat(41)), format!("`{}…`", "x".repeat(40)));
}

#[test]
fn near_names_are_found_and_far_ones_are_not() {
    let names = ["api", "login", "reports"];
    assert_eq!(nearest("logn", names), Some("login"));
    assert_eq!(nearest("report", names), Some("reports"));
    assert_eq!(nearest("xyz", names), None);
    assert_eq!(nearest("", names), None);
}

#[test]
fn names_are_listed_up_to_a_bound() {
    assert_eq!(file_has([]), "the file has none");
    assert_eq!(file_has(["a", "b"]), "the file has a, b");
    assert_eq!(file_has(["a"; 10]), "the file has a, a, a, a, a, a, a, a, a, a");
    assert_eq!(file_has(["a"; 12]), "the file has a, a, a, a, a, a, a, a, a, a and 2 more");
}
