use super::*;

fn parse(line: &str) -> Result<Step<'_>, Vec<Flaw>> {
    Step::parse(line.as_bytes())
}

/// Reads all lines of a text; the numbers of those that hold something.
fn numbers(text: &[u8]) -> Result<Vec<u64>, WrongLine> {
    let mut lines = Lines::new(text);
    let mut numbers = Vec::new();
    while lines.advance().expect("memory can be read")? {
        numbers.push(lines.number);
    }
    Ok(numbers)
}

#[test]
fn a_step_is_an_acquire_of_one_unless_it_says_otherwise() {
    let step = parse(r#"{"t_us":7,"key":"user:42"}"#).expect("a step");
    assert_eq!((step.at.get(), step.op, step.cost), (7, Op::Acquire, 1));
    assert_eq!((step.key.as_deref(), step.policy, step.keys.len()), (Some("user:42"), None, 0));
}

#[test]
fn every_op_has_its_word() {
    for (op, expected) in [
        (r#""op":"acquire""#, Op::Acquire),
        (r#""op":"peek""#, Op::Peek),
        (r#""op":"reset""#, Op::Reset),
        (r#""op":"refund""#, Op::Credit),
        (r#""op":"refund","of":0"#, Op::Refund(0)),
        (r#""of":18446744073709551615,"op":"refund""#, Op::Refund(u64::MAX)),
    ] {
        let line = format!("{{\"t_us\":0,\"key\":\"k\",{op}}}");
        assert_eq!(parse(&line).expect(op).op, expected);
    }
}

#[test]
fn times_and_costs_are_taken_at_their_bounds_and_refused_past_them() {
    let step = parse(r#"{"t_us":9007199254740991,"key":"k","cost":18446744073709551615}"#).expect("a step");
    assert_eq!((step.at, step.cost), (Micros::MAX, u64::MAX));
    let flaws =
        parse(r#"{"t_us":9007199254740992,"key":"k","cost":18446744073709551616}"#).expect_err("flaws");
    let pointers: Vec<_> = flaws.iter().map(|flaw| flaw.pointer.as_str()).collect();
    assert_eq!(pointers, ["/t_us", "/cost"]);
}

#[test]
fn wrong_lines_say_what_is_wrong() {
    for (line, message) in [
        (r#"{"key":"k"}"#, "`t_us` is missing"),
        (r#"{"t_us":0,"key":"k","op":"aquire"}"#, "unknown op `aquire`"),
        (r#"{"t_us":0,"key":"k","op":"reset","of":1}"#, "`of` belongs to"),
        (r#"{"t_us":0,"key":"k","of":1}"#, "`of` belongs to"),
        (r#"{"t_us":0,"key":"k","cost":-1}"#, "`cost` is a whole number"),
        (r#"{"t_us":0,"key":"k","cost":null}"#, "`cost` is a whole number"),
        (r#"{"t_us":0,"key":7}"#, "`key` is a text"),
        (r#"{"t_us":0,"key":"k","kez":{}}"#, "unknown field `kez`"),
        (r#"{"t_us":0,"t_us":0,"key":"k"}"#, "duplicate field `t_us`"),
        (r#"{"t_us":0,"key":"k"}{}"#, "trailing characters"),
    ] {
        let flaws = parse(line).expect_err(line);
        assert_eq!(flaws.len(), 1, "{line}");
        assert!(flaws[0].message.contains(message), "{line}: {}", flaws[0].message);
    }
}

#[test]
fn empty_lines_are_skipped_but_counted() {
    assert_eq!(numbers(b"a\n\n \t\r\nb\r\n\n"), Ok(vec![1, 4]));
    assert_eq!(numbers(b"a\nb"), Ok(vec![1, 2]));
    assert_eq!(numbers(b""), Ok(vec![]));
}

#[test]
fn a_line_may_have_64_kib_and_not_one_byte_more() {
    let line = |length: usize| [vec![b'\n'], vec![b'x'; length], vec![b'\n']].concat();
    assert_eq!(numbers(&line(MAX_LINE_BYTES)), Ok(vec![2]));
    let wrong = numbers(&line(MAX_LINE_BYTES + 1)).expect_err("too long");
    assert_eq!((wrong.number, wrong.flaws.len()), (2, 1));
    let last = vec![b'x'; MAX_LINE_BYTES + 1];
    assert!(numbers(&last).is_err());
    assert_eq!(numbers(&last[1..]), Ok(vec![1]));
}

#[test]
fn the_message_shows_line_place_and_remedy() {
    let line = r#"{"t_us":0,"key":"k","cots":1}"#;
    let wrong = WrongLine { number: 12, line: line.to_owned(), flaws: parse(line).expect_err("a flaw") };
    let expected = "\
error: line 12: unknown field `cots`
  --> trace.jsonl:12:22
   |
12 | {\"t_us\":0,\"key\":\"k\",\"cots\":1}
   |                      ^^^^ did you mean `cost`?";
    assert_eq!(wrong.in_file("trace.jsonl").to_string(), expected);
}

#[test]
fn the_message_cuts_what_is_long_and_escapes_what_is_not_text() {
    let line = format!("{}\u{1b}[31m{}", "é".repeat(500), "x".repeat(500));
    let flaw = Flaw { pointer: String::new(), at: 1_000, len: 5, message: "no".into(), hint: None };
    let wrong = WrongLine { number: 1, line, flaws: vec![flaw] };
    let told = wrong.in_file("t").to_string();
    assert!(told.contains("--> t:1:501"), "{told}");
    assert!(told.contains(&format!("1 | …{}\u{fffd}[31m{}…\n", "é".repeat(50), "x".repeat(45))), "{told}");
    assert!(told.ends_with(&format!("  | {}^^^^^", " ".repeat(51))), "{told}");
    // A place inside of a character, as broken UTF-8 has, is no fault.
    let flaw = Flaw { pointer: String::new(), at: 1, len: 900, message: "no".into(), hint: None };
    let _ = WrongLine { number: 1, line: "é".to_owned(), flaws: vec![flaw] }.in_file("t").to_string();
}
