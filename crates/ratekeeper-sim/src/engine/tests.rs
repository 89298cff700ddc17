mod model;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use model::Model;

/// A file of four policies; `b` is 2 a minute from the first request on.
const FILE: &str = "
version: 1
policies:
  - name: a
    key: [header:x-user]
    limits: [{ name: one, algorithm: fixed-window, limit: 1/minute, align: first-request }]
  - name: b
    key: [header:x-user]
    limits: [{ name: two, algorithm: fixed-window, limit: 2/minute, align: first-request }]
  - name: many
    key: [header:x-user]
    limits:
      - { name: user, algorithm: fixed-window, limit: 5/minute }
      - { name: ip, algorithm: fixed-window, limit: 5/minute, key: [ip] }
      - { name: all, algorithm: fixed-window, limit: 5/minute, key: [global] }
  - name: wait
    key: [header:x-user]
    limits: [{ name: queue, algorithm: leaky-bucket, limit: 1/s, queue: 2 }]
";

fn config(text: &str) -> Config {
    Config::parse("test.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Runs a trace against a file; what was printed, and how it ended.
fn run_with(text: &str, policy: Option<&str>, trace: &[u8]) -> (String, Result<(), SimError>) {
    run_config(&config(text), policy, trace)
}

fn run_config(config: &Config, policy: Option<&str>, trace: &[u8]) -> (String, Result<(), SimError>) {
    let clock = ManualClock::new();
    let model = || Model::new(&clock);
    let stores: Vec<(Name, Model)> =
        config.stores.iter().map(|store| (store.name.clone(), model())).collect();
    let policy = policy.map(|name| config.policy(name).expect("in the file"));
    let mut simulation = Simulation::new(config, policy, &stores, clock.clone());
    let mut output = Vec::new();
    let ended = {
        let mut run = pin!(simulation.run(trace, &mut output));
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended,
            Poll::Pending => panic!("the model is ready at once"),
        }
    };
    (String::from_utf8(output).expect("UTF-8"), ended)
}

/// The answers to a good trace on policy `policy`.
fn run(policy: &str, trace: &str) -> Vec<String> {
    let (output, ended) = run_with(FILE, Some(policy), trace.as_bytes());
    ended.unwrap_or_else(|wrong| panic!("{wrong}"));
    output.lines().map(str::to_owned).collect()
}

/// How many steps of a trace on policy `policy` were answered, and the number and first message of its wrong line.
fn wrong(policy: Option<&str>, trace: &[u8]) -> (usize, u64, String) {
    let (output, ended) = run_with(FILE, policy, trace);
    match ended {
        Err(SimError::Wrong(line)) => (output.lines().count(), line.number, line.flaws[0].message.clone()),
        other => panic!("{other:?} after\n{output}"),
    }
}

/// One field of an answer, as it is written.
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let start = answer.find(&format!("\"{name}\":")).expect(name) + name.len() + 3;
    let rest = &answer[start..];
    &rest[..rest.find([',', '}']).expect("an end")]
}

fn fields(answers: &[String], name: &str) -> Vec<String> {
    answers.iter().map(|answer| field(answer, name).to_owned()).collect()
}

#[test]
fn the_transcript_of_the_manual_is_printed_to_the_byte() {
    let trace = "\
{\"t_us\":0,\"key\":\"u1\"}
{\"t_us\":59999999,\"key\":\"u1\"}
{\"t_us\":60000000,\"key\":\"u1\"}
";
    let (output, ended) = run_with(FILE, Some("a"), trace.as_bytes());
    ended.expect("a good trace");
    let expected = r#"{"t_us":0,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":60000000,"delay_us":0,"limit":"one","limits":[{"name":"one","remaining":0,"reset_after_us":60000000}]}
{"t_us":59999999,"allowed":false,"reason":"limited","remaining":0,"retry_after_us":1,"reset_after_us":1,"delay_us":0,"limit":"one","limits":[{"name":"one","remaining":0,"reset_after_us":1}]}
{"t_us":60000000,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":60000000,"delay_us":0,"limit":"one","limits":[{"name":"one","remaining":0,"reset_after_us":60000000}]}
"#;
    assert_eq!(output, expected);
}

#[test]
fn a_cost_that_can_never_pass_waits_for_null() {
    let answers = run("a", r#"{"t_us":0,"key":"k","cost":18446744073709551615}"#);
    let start =
        r#"{"t_us":0,"allowed":false,"reason":"cost_exceeds_capacity","remaining":1,"retry_after_us":null,"#;
    assert!(answers[0].starts_with(start), "{}", answers[0]);
}

#[test]
fn several_limits_are_printed_in_the_order_of_the_file_and_the_least_binds() {
    let answers = run(
        "many",
        r#"{"t_us":0,"key":"k","keys":{"ip":"192.0.2.1"}}
{"t_us":0,"key":"l","keys":{"ip":"192.0.2.1"}}
{"t_us":0,"key":"k","keys":{"ip":"192.0.2.2"},"cost":0}"#,
    );
    assert!(answers[0].ends_with(r#""limit":"user","limits":[{"name":"user","remaining":4,"reset_after_us":60000000},{"name":"ip","remaining":4,"reset_after_us":60000000},{"name":"all","remaining":4,"reset_after_us":60000000}]}"#), "{}", answers[0]);
    assert_eq!(field(&answers[1], "limit"), "\"ip\"");
    assert_eq!(field(&answers[2], "limit"), "\"all\"");
    assert_eq!(fields(&answers, "remaining"), ["4", "3", "3"]);
}

#[test]
fn the_clock_may_step_back_between_steps() {
    let answers = run(
        "a",
        r#"{"t_us":120000000,"key":"k"}
{"t_us":0,"key":"k"}"#,
    );
    assert_eq!(fields(&answers, "t_us"), ["120000000", "0"]);
}

#[test]
fn a_peek_answers_as_an_acquire_with_the_numbers_of_now_and_writes_nothing() {
    let answers = run(
        "b",
        r#"{"t_us":0,"key":"k","op":"peek"}
{"t_us":0,"key":"k","op":"peek","cost":2}
{"t_us":0,"key":"k","op":"peek","cost":3}
{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","op":"peek","cost":2}"#,
    );
    assert_eq!(fields(&answers, "allowed"), ["true", "true", "false", "true", "false"]);
    assert_eq!(fields(&answers, "remaining"), ["2", "2", "2", "1", "1"]);
    assert_eq!(fields(&answers, "retry_after_us"), ["0", "0", "null", "0", "60000000"]);
    let delays = run(
        "wait",
        r#"{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","op":"peek"}
{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","cost":0}"#,
    );
    assert_eq!(fields(&delays, "delay_us"), ["0", "1000000", "1000000", "0"]);
}

#[test]
fn a_cost_of_0_is_always_allowed() {
    let answers = run(
        "a",
        r#"{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","cost":0}
{"t_us":0,"key":"k","cost":0,"op":"peek"}"#,
    );
    assert_eq!(fields(&answers, "allowed"), ["true", "true", "true"]);
    assert_eq!(fields(&answers, "remaining"), ["0", "0", "0"]);
}

#[test]
fn a_reset_forgets_the_own_key_and_those_named_but_never_a_global_limit() {
    let answers = run(
        "many",
        r#"{"t_us":0,"key":"k","keys":{"ip":"192.0.2.1"},"cost":3}
{"t_us":0,"key":"k","keys":{"ip":"192.0.2.1","all":"k"},"op":"reset"}
{"t_us":0,"key":"l","keys":{"ip":"192.0.2.1"},"cost":0}"#,
    );
    assert!(answers[1].contains(r#"{"name":"user","remaining":5,"#), "{}", answers[1]);
    assert!(answers[1].contains(r#"{"name":"ip","remaining":5,"#), "{}", answers[1]);
    assert!(answers[1].contains(r#"{"name":"all","remaining":2,"#), "{}", answers[1]);
    assert_eq!(field(&answers[2], "remaining"), "2");
}

#[test]
fn a_refund_of_a_step_gives_back_in_every_limit_of_it_once() {
    let answers = run(
        "many",
        r#"{"t_us":0,"key":"k","keys":{"ip":"192.0.2.1"},"cost":3}
{"t_us":0,"op":"refund","of":0}
{"t_us":0,"op":"refund","of":0}
{"t_us":0,"key":"k","keys":{"ip":"192.0.2.1"},"cost":5}"#,
    );
    assert_eq!(fields(&answers, "remaining"), ["2", "5", "5", "0"]);
    assert!(answers[1].contains(r#"{"name":"all","remaining":5,"#), "{}", answers[1]);
}

#[test]
fn a_refund_of_a_step_takes_policy_keys_and_cost_from_it() {
    let answers = run(
        "b",
        r#"{"t_us":0,"key":"k","cost":2}
{"t_us":0,"key":"other","policy":"many","cost":1,"keys":{"nobody":"x"},"op":"refund","of":0}
{"t_us":0,"key":"other","cost":0}"#,
    );
    assert_eq!(field(&answers[1], "limit"), "\"two\"");
    assert_eq!(fields(&answers, "remaining"), ["0", "2", "2"]);
}

#[test]
fn the_step_that_of_names_is_counted_from_0_without_empty_lines_and_by_every_op() {
    let answers = run(
        "b",
        r#"
{"t_us":0,"key":"x","op":"peek"}

{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","op":"refund","of":1}"#,
    );
    assert_eq!(fields(&answers, "remaining"), ["2", "1", "2"]);
}

#[test]
fn a_denied_step_gives_nothing_back_and_its_key_is_looked_at() {
    let answers = run(
        "b",
        r#"{"t_us":0,"key":"k"}
{"t_us":0,"key":"k","cost":2}
{"t_us":0,"key":"other","op":"refund","of":1}
{"t_us":0,"key":"k","cost":0}
{"t_us":0,"key":"k","op":"refund","of":3}"#,
    );
    assert_eq!(fields(&answers, "remaining"), ["1", "1", "1", "1", "1"]);
    assert_eq!(fields(&answers, "allowed"), ["true", "false", "true", "true", "true"]);
}

#[test]
fn a_refund_without_of_is_a_credit_of_cost_up_to_full() {
    let answers = run(
        "b",
        r#"{"t_us":0,"key":"k","cost":2}
{"t_us":0,"key":"k","op":"refund"}
{"t_us":0,"key":"k","op":"refund","cost":18446744073709551615}
{"t_us":0,"key":"fresh","op":"refund","cost":1}"#,
    );
    assert_eq!(fields(&answers, "remaining"), ["0", "1", "2", "2"]);
    // A queue's slots are promised.
    let queue = run(
        "wait",
        r#"{"t_us":0,"key":"k","cost":3}
{"t_us":0,"key":"k","op":"refund","cost":3}"#,
    );
    assert_eq!(fields(&queue, "remaining"), ["0", "0"]);
}

#[test]
fn of_may_name_an_earlier_acquire_only() {
    let start = "{\"t_us\":0,\"key\":\"k\"}\n{\"t_us\":0,\"key\":\"k\",\"op\":\"peek\"}\n";
    let refund = |of: &str| format!("{start}{{\"t_us\":0,\"op\":\"refund\",\"of\":{of}}}\n{start}");
    for (of, message) in [
        ("1", "`of` names step 1, which is no `acquire`"),
        ("2", "`of` names step 2, but this line is step 2"),
        ("3", "`of` names step 3, but this line is step 2"),
        ("18446744073709551615", "`of` names step 18446744073709551615, but"),
    ] {
        let (answered, line, told) = wrong(Some("a"), refund(of).as_bytes());
        assert_eq!((answered, line), (2, 3));
        assert!(told.starts_with(message), "{told}");
    }
}

#[test]
fn each_step_is_decided_by_its_own_policy_or_that_of_the_run_or_the_only_one() {
    let answers = run(
        "a",
        r#"{"t_us":0,"key":"k","policy":"b"}
{"t_us":0,"key":"k"}"#,
    );
    assert_eq!(fields(&answers, "limit"), ["\"two\"", "\"one\""]);
    let line = b"{\"t_us\":0,\"key\":\"k\"}";
    let (_, _, told) = wrong(None, line);
    assert_eq!(told, "no policy is named, and there are 4");
    let hint = |text: &str, line: &[u8]| match run_with(text, None, line) {
        (_, Err(SimError::Wrong(line))) => line.flaws[0].hint.clone().expect("a hint"),
        other => panic!("{other:?}"),
    };
    assert!(hint(FILE, line).ends_with("give `--policy`: the file has a, b, many, wait"));
    assert_eq!(hint("version: 1", b"{\"t_us\":0,\"key\":\"k\",\"policy\":\"x\"}"), "the file has none");
    assert_eq!(hint("version: 1", line), "add one to the file");
    let single = "version: 1\npolicies:\n  - { name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/s }] }\n";
    let (output, ended) = run_with(single, None, line);
    ended.expect("the only policy");
    assert_eq!(field(&output, "limit"), "\"l\"");
}

#[test]
fn a_limit_of_the_command_line_has_no_policy_that_a_line_could_name() {
    let flags = ratekeeper_policy::LimitFlags {
        limit: "1/s",
        algorithm: "gcra",
        ..ratekeeper_policy::LimitFlags::default()
    };
    let config = Config::single(&flags).expect("a good limit");
    for name in ["policy", "x"] {
        let line = format!("{{\"t_us\":0,\"key\":\"k\",\"policy\":\"{name}\"}}");
        let (output, ended) = run_config(&config, None, line.as_bytes());
        let Err(SimError::Wrong(line)) = ended else { panic!("{output}") };
        assert_eq!(line.flaws[0].hint.as_deref(), Some("`--limit` has no policies: leave `policy` out"));
    }
}

#[test]
fn policies_of_different_stores_are_decided_in_their_own() {
    let file = "
version: 1
stores: { x: { memory: { max_keys: 10 } }, y: { memory: { max_keys: 10 } } }
policies:
  - { name: p, key: [ip], store: x, limits: [{ name: l, algorithm: gcra, limit: 1/s }] }
  - { name: q, key: [ip], store: y, limits: [{ name: l, algorithm: gcra, limit: 1/s }] }
";
    let trace = b"{\"t_us\":0,\"key\":\"k\",\"policy\":\"p\"}\n{\"t_us\":0,\"key\":\"k\",\"policy\":\"q\"}";
    let (output, ended) = run_with(file, None, trace);
    ended.expect("a good trace");
    assert_eq!(output.matches("\"allowed\":true").count(), 2);
}

#[test]
fn what_stands_before_a_wrong_line_is_decided_and_printed() {
    let good = "{\"t_us\":0,\"key\":\"k\"}\n\n{\"t_us\":1,\"key\":\"k\"}\n";
    for (line, message) in [
        ("{\"t_us\":2,\"key\":\"k\",\"policy\":\"aa\"}", "unknown policy `aa`"),
        ("{\"t_us\":2,\"key\":\"k\",\"keys\":{\"on\":\"x\"}}", "the policy has no limit `on`"),
        ("{\"t_us\":2}", "`key` is missing"),
        ("{\"t_us\":2,\"key\":\"\"}", "`key` is empty"),
        ("{\"t_us\":2,\"policy\":\"many\",\"key\":\"k\"}", "limit `ip` has a key of its own"),
        (
            "{\"t_us\":2,\"policy\":\"many\",\"key\":\"k\",\"op\":\"reset\"}",
            "limit `ip` has a key of its own",
        ),
        ("{\"t_us\":2,\"key\":\"k\",\"cost\":1.0}", "`cost` is a whole number"),
        ("{\"t_us\":2,\"key\":\"k\",\"weight\":1}", "unknown field `weight`"),
        ("{\"t_us\":2,\"key\":\"k\"", "not JSON"),
    ] {
        let trace = format!("{good}{line}\n{good}");
        let (answered, number, told) = wrong(Some("a"), trace.as_bytes());
        assert_eq!((answered, number), (2, 4), "{line}");
        assert!(told.starts_with(message), "{told}");
    }
    let (answered, number, told) =
        wrong(Some("a"), &[good.as_bytes(), b"{\"t_us\":0,\"key\":\"\xc3\"}"].concat());
    assert_eq!((answered, number), (2, 4));
    assert!(told.starts_with("not UTF-8"), "{told}");
}

#[test]
fn a_policy_of_global_limits_alone_needs_no_key() {
    let file = "version: 1\npolicies:\n  - { name: p, key: [global], limits: [{ name: l, algorithm: gcra, limit: 2/s }] }\n";
    let trace = "{\"t_us\":0}\n{\"t_us\":0,\"key\":\"\"}\n{\"t_us\":0,\"key\":\"k\",\"cost\":0}";
    let (output, ended) = run_with(file, None, trace.as_bytes());
    ended.expect("a good trace");
    assert_eq!(fields(&output.lines().map(str::to_owned).collect::<Vec<_>>(), "remaining"), ["1", "0", "0"]);
}

#[test]
fn a_key_that_nothing_counts_by_is_not_looked_at() {
    let long = "x".repeat(2_000);
    for given in ["", "anybody", &long] {
        let answers = run(
            "many",
            &format!(
                r#"{{"t_us":0,"key":"k","keys":{{"ip":"192.0.2.1","all":"{given}"}}}}
{{"t_us":0,"key":"{given}","keys":{{"ip":"","all":""}},"op":"refund","of":0}}"#
            ),
        );
        assert_eq!(fields(&answers, "remaining"), ["4", "5"], "{}", given.len());
    }
}

#[test]
fn a_key_is_remembered_once_however_many_steps_name_it() {
    let config = config(FILE);
    let clock = ManualClock::new();
    let stores = [(config.stores[0].name.clone(), Model::new(&clock))];
    let mut simulation = Simulation::new(&config, config.policy("a"), &stores, clock);
    let trace = "{\"t_us\":0,\"key\":\"k\"}\n".repeat(1_000);
    let mut run = Box::pin(simulation.run(trace.as_bytes(), io::sink()));
    let Poll::Ready(ended) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("ready")
    };
    ended.expect("a good trace");
    drop(run);
    assert_eq!((simulation.callers.len(), simulation.past.len(), simulation.tokens.len()), (1, 1_000, 1));
}

#[test]
fn a_reader_that_has_gone_ends_the_run() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let config = config(FILE);
    let clock = ManualClock::new();
    let stores = [(config.stores[0].name.clone(), Model::new(&clock))];
    let mut simulation = Simulation::new(&config, config.policy("a"), &stores, clock);
    let mut run = Box::pin(simulation.run(&b"{\"t_us\":0,\"key\":\"k\"}"[..], Gone));
    let Poll::Ready(Err(SimError::Output(wrong))) =
        run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("an end")
    };
    assert_eq!(wrong.kind(), io::ErrorKind::BrokenPipe);
}
