use super::*;

const HEADERS: &[(&str, &[u8])] = &[
    ("Host", b"a"),
    ("X-User", b""),
    ("x-user", b"one"),
    ("X-USER", b"two"),
    ("x-user2", b"three"),
    ("X_User", b"four"),
];

#[test]
fn lines_of_a_name_come_in_their_order_whatever_their_case() {
    let facts = Facts { headers: HEADERS, ..Facts::default() };
    let lines: Vec<&[u8]> = facts.header_lines("x-User").collect();
    assert_eq!(lines, [b"".as_slice(), b"one", b"two"]);
    assert_eq!(facts.header_lines("x-user").next_back(), Some(b"two".as_slice()));
    assert_eq!(facts.header_lines("x-use").count(), 0);
}

#[test]
fn the_header_is_its_first_line_that_is_not_empty() {
    let facts = Facts { headers: HEADERS, ..Facts::default() };
    assert_eq!(facts.header("X-user"), Some(b"one".as_slice()));
    assert_eq!(facts.header("x_user"), Some(b"four".as_slice()));
    assert_eq!(facts.header("cookie"), None);
    let empty = Facts { headers: &[("x", b""), ("x", b"")], ..Facts::default() };
    assert_eq!(empty.header("x"), None);
}

#[test]
fn nothing_is_known_of_a_request_nobody_described() {
    let facts = Facts::default();
    assert_eq!(facts.source, Source::Unknown);
    assert_eq!((facts.method, facts.target, facts.host, facts.headers.len()), (None, None, None, 0));
}
