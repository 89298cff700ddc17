use super::*;

fn object(text: &str) -> Object<'_> {
    Object::parse(text.as_bytes()).expect("an object")
}

/// What is wrong with one member that is read as a number up to 9.
fn wrong_number(text: &str) -> Vec<Flaw> {
    let mut object = object(text);
    object.whole("n", 9);
    object.finish().err().unwrap_or_default()
}

#[test]
fn whole_numbers_are_taken_up_to_their_bound() {
    let mut object = object(r#"{"a":0,"b":18446744073709551615,"c":9}"#);
    assert_eq!(object.whole("a", 9), Some(0));
    assert_eq!(object.whole("b", u64::MAX), Some(u64::MAX));
    assert_eq!(object.whole("c", 9), Some(9));
    assert_eq!(object.whole("d", 9), None);
    assert!(!object.has("d"));
    object.finish().expect("nothing is wrong");
}

#[test]
fn anything_but_digits_within_the_bound_is_no_whole_number() {
    for typed in
        ["10", "-1", "-0", "1.0", "1e0", "1E3", "\"1\"", "null", "true", "[1]", "{}", "18446744073709551616"]
    {
        let flaws = wrong_number(&format!("{{\"n\":{typed}}}"));
        assert_eq!(flaws.len(), 1, "{typed}");
        assert_eq!((flaws[0].pointer.as_str(), flaws[0].at, flaws[0].len), ("/n", 5, typed.len()), "{typed}");
        assert!(flaws[0].message.contains(&format!("not `{typed}`")), "{}", flaws[0].message);
    }
}

#[test]
fn json_that_is_none_is_refused_with_its_place() {
    for (text, at, part) in [
        ("", 0, "EOF"),
        ("x", 0, "expected value"),
        ("[]", 0, "expected a JSON object"),
        ("{\"n\":1,}", 7, "trailing comma"),
        ("{\"n\":01}", 6, "invalid number"),
        ("{\"n\":+1}", 5, "expected value"),
        ("{\"n\":1} x", 8, "trailing characters"),
        ("{\n\"n\" 1}", 6, "line 2, column 5"),
        ("{'n':1}", 1, "key must be a string"),
        ("{\"n\":NaN}", 5, "expected value"),
    ] {
        let flaw = Object::parse(text.as_bytes()).expect_err(text);
        assert!(flaw.message.contains(part), "{text}: {}", flaw.message);
        assert_eq!(flaw.at, at, "{text}: {}", flaw.message);
    }
}

#[test]
fn bytes_that_are_no_utf8_are_refused_with_their_place() {
    let flaw = Object::parse(b"{\"n\":\"\xff\"}").expect_err("no UTF-8");
    assert_eq!((flaw.at, flaw.message.as_str()), (6, "not UTF-8: column 7"));
}

#[test]
fn unknown_and_duplicate_members_are_told_together_in_the_order_of_the_text() {
    let mut object = object(r#"{"cosst":1,"key":"a","\u006bey":"b","x/y~":2,"cost":3}"#);
    assert_eq!(object.text("key").as_deref(), Some("a"));
    assert_eq!(object.whole("cost", 9), Some(3));
    let flaws = object.finish().expect_err("flaws");
    let told: Vec<_> = flaws.iter().map(|flaw| (flaw.pointer.as_str(), flaw.to_string())).collect();
    assert_eq!(
        told,
        [
            ("/cosst", "unknown field `cosst`: did you mean `cost`?".to_owned()),
            ("/key", "duplicate field `key`".to_owned()),
            ("/x~1y~0", "unknown field `x/y~`: known are key, cost".to_owned()),
        ]
    );
}

#[test]
fn keys_of_any_length_are_taken() {
    for length in [0, 1, 1_025] {
        let key = "k".repeat(length);
        let text = format!("{{\"key\":\"{key}\",\"keys\":{{\"a\":\"{key}\"}}}}");
        let mut object = object(&text);
        assert_eq!(object.text("key").map(|key| key.len()), Some(length));
        assert_eq!(object.keys("keys").len(), 1);
        object.finish().expect("no flaw");
    }
}

#[test]
fn texts_keep_what_they_say() {
    let mut object = object(r#"{"a":"\u0000\"\\","b":"k é"}"#);
    assert_eq!(object.text("a").as_deref(), Some("\0\"\\"));
    assert!(matches!(object.text("b"), Some(Cow::Borrowed("k é"))));
    for typed in [r#""\ud800""#, r#""\x""#, "1", "null", "{}"] {
        let text = format!("{{\"t\":{typed}}}");
        // An escape that does not exist is found before the members are looked at.
        let Ok(mut object) = Object::parse(text.as_bytes()) else { continue };
        assert_eq!(object.text("t"), None, "{typed}");
        assert_eq!(object.finish().expect_err("a flaw")[0].pointer, "/t");
    }
}

#[test]
fn keys_are_an_object_of_texts_without_duplicates() {
    for (keys, pointer) in [
        ("[]", "/keys"),
        ("\"a\"", "/keys"),
        ("null", "/keys"),
        (r#"{"a":1}"#, "/keys/a"),
        (r#"{"a":"x","a":"y"}"#, "/keys/a"),
        (r#"{"a":{"b":"c"}}"#, "/keys/a"),
    ] {
        let text = format!("{{\"keys\":{keys}}}");
        let mut object = object(&text);
        object.keys("keys");
        let flaws = object.finish().expect_err(keys);
        assert_eq!((flaws.len(), flaws[0].pointer.as_str()), (1, pointer), "{keys}");
    }
}

#[test]
fn an_object_of_too_many_members_is_refused_at_once() {
    let members = |n: usize| (0..n).map(|i| format!("\"m{i}\":0")).collect::<Vec<_>>().join(",");
    let most = format!("{{{}}}", members(MAX_MEMBERS));
    assert_eq!(object(&most).finish().expect_err("unknown ones").len(), MAX_MEMBERS);
    let more = format!("{{{}}}", members(MAX_MEMBERS + 1));
    assert!(Object::parse(more.as_bytes()).expect_err("too many").message.contains("more than 64 members"));
    let text = format!("{{\"keys\":{more}}}");
    let mut object = object(&text);
    object.keys("keys");
    assert!(object.finish().expect_err("too many")[0].message.contains("more than 64 members"));
}

#[test]
fn deep_nesting_is_no_way_to_the_end_of_the_stack() {
    let deep = format!("{{\"t\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    if let Ok(mut object) = Object::parse(deep.as_bytes()) {
        assert_eq!(object.text("t"), None);
        assert!(object.finish().is_err());
    }
}

#[test]
fn a_refused_member_says_why_and_is_not_proposed() {
    let mut refused = object(r#"{"attributes":{"ip":"::1"}}"#);
    refused.refuse("attributes", "not here");
    assert_eq!(refused.finish().expect_err("refused")[0].message, "not here");
    let mut misspelt = object(r#"{"attributs":1}"#);
    misspelt.refuse("attributes", "not here");
    misspelt.flag("peek");
    assert_eq!(misspelt.finish().expect_err("unknown")[0].hint.as_deref(), Some("known are peek"));
}

/// A member with a name of the caller's own.
type Own<'a> = (Cow<'a, str>, TextOr<'a, Option<u64>>);

/// The members of `m`, and what is wrong.
fn texts_or_objects(text: &str) -> (Vec<Own<'_>>, Vec<Flaw>) {
    let mut object = object(text);
    let members = object.texts_or_objects("m", "{}", |inner| inner.whole("n", 9));
    let is_flawed = object.is_flawed();
    let flaws = object.finish().err().unwrap_or_default();
    assert_eq!(is_flawed, flaws.iter().any(|flaw| flaw.pointer != "/x"), "{flaws:?}");
    (members, flaws)
}

#[test]
fn members_with_names_of_the_callers_own_are_texts_or_objects() {
    let (members, flaws) = texts_or_objects(r#"{"m":{"a":"1/s","b":{"n":3},"c":{}}}"#);
    assert_eq!(flaws, []);
    let expected =
        [("a", TextOr::Text("1/s".into())), ("b", TextOr::Object(Some(3))), ("c", TextOr::Object(None))];
    assert!(members.iter().map(|(name, value)| (&**name, value)).eq(expected.iter().map(|(n, v)| (*n, v))));
    assert_eq!(texts_or_objects("{}"), (Vec::new(), Vec::new()));
    let places = |text: &str| {
        let flaws = texts_or_objects(text).1;
        flaws
            .iter()
            .map(|flaw| (flaw.pointer.clone(), text[flaw.at..flaw.at + flaw.len].to_owned()))
            .collect::<Vec<_>>()
    };
    let place = |pointer: &str, part: &str| (pointer.to_owned(), part.to_owned());
    assert_eq!(
        places(r#"{"m":{"a/b":1,"c":{"n":10,"k":1}},"x":2}"#),
        [place("/m/a~1b", "1"), place("/m/c/n", "10"), place("/m/c/k", "k"), place("/x", "x")]
    );
    assert_eq!(places(r#"{"m":{"a":"1","a":"2"}}"#), [place("/m/a", "a")]);
    assert_eq!(places(r#"{"m":[1]}"#), [place("/m", "[1]")]);
    let many: Vec<String> = (0..=MAX_MEMBERS).map(|n| format!("\"{n}\":\"x\"")).collect();
    let of = |many: &[String]| format!("{{\"m\":{{{}}}}}", many.join(","));
    let (most, one_past) = (of(many.get(1..).expect("there are more")), of(&many));
    assert_eq!(texts_or_objects(&most).0.len(), MAX_MEMBERS);
    assert_eq!(texts_or_objects(&one_past).1.len(), 1);
}

#[test]
fn a_place_within_a_member_is_a_pointer_into_it() {
    let mut object = object(r#"{"limits":{"a":1}}"#);
    object.texts_or_objects("limits", "{}", |_| ());
    object.wrong_within("limits", &["a/b", "burst"], "too large".to_owned(), None);
    let flaws = object.finish().expect_err("two");
    let pointers: Vec<_> = flaws.iter().map(|flaw| flaw.pointer.as_str()).collect();
    assert!(pointers.contains(&"/limits/a~1b/burst"), "{pointers:?}");
}
