//! No input panics, and whatever is refused is refused with places that exist.

use proptest::collection::vec;
use proptest::prelude::*;
use ratekeeper_policy::{Config, LimitFlags};

const GOOD: &str = "version: 1 # comment
listen:
  http: ${ADDRESS:-127.0.0.1:8080}
  admin: { address: 0.0.0.0:9090, deadline: 50ms, tls: { cert: a.pem, key: a.key }, token: \"0123456789abcdef\" }
client_ip: { trusted_proxies: [10.0.0.0/8, ::1], header: x-forwarded-for, ipv6_prefix: 64 }
log: { format: json, level: warn, keys: off, denied_per_second: 10 }
stores: { local: { memory: { max_keys: 1000000, max_bytes: 256MiB, on_full: share } } }
defaults: { store: local, headers: [ratelimit, x-ratelimit] }
policies:
  - name: api
    headers: []
    match: { method: [GET, HEAD], path: \"/api/{id}/**\", host: \"*.example.com\", headers: { x-plan: 'free-*' } }
    key: [header:x-api-key, [header:x-tenant, ip], \"global\"]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: paced, algorithm: leaky-bucket, limit: 5 per 10m, queue: 10, max_wait: 5s }
      - name: dayly
        algorithm: fixed-window
        limit: 1000/day
        align: calendar
        timezone: Europe/Paris
        key: ['global']
";

/// Pieces that change what a YAML parser is about.
const PIECES: [&str; 34] = [
    "\n",
    "\n  ",
    "\n- ",
    " ",
    "\t",
    ": ",
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "#",
    "&a ",
    "*a",
    "!t ",
    "|\n",
    ">\n",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "${",
    "}",
    "0",
    "-1",
    "\u{feff}",
    "\r",
    "\u{85}",
    "日",
    "e\u{301}",
];

/// Reads, and checks what must hold of every answer.
fn check(bytes: &[u8]) {
    let env = |name: &str| (name.len() < 4).then(|| "1\u{1b}".to_owned());
    let Err(errors) = Config::parse("f", bytes, &env) else { return };
    assert!(!errors.items.is_empty());
    let text = String::from_utf8_lossy(bytes);
    for item in &errors.items {
        assert!(text.get(item.span.clone()).is_some(), "{item:?}");
        assert!(item.line >= 1 && item.column >= 1);
        assert_eq!(text[..item.span.start].matches('\n').count() + 1, item.line, "{item:?}");
    }
    let said = errors.render();
    let unfit = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!said.contains(unfit), "{said:?}");
    for item in &errors.items {
        assert!(said.contains(&format!("--> f:{}:{}\n", item.line, item.column)), "{said}");
    }
}

#[test]
fn the_good_file_is_good() {
    let read = Config::parse("f", GOOD.as_bytes(), &|_| None);
    assert!(read.is_ok(), "{}", read.expect_err("a mistake"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_good_file_with_pieces_put_in_or_cut_out_never_panics(
        edits in vec((0..GOOD.len(), 0..8_usize, 0..PIECES.len(), any::<bool>()), 1..6)
    ) {
        let mut file = GOOD.to_owned();
        for (at, cut, piece, keep) in edits {
            let at = at.min(file.len());
            let end = (at + cut).min(file.len());
            if file.is_char_boundary(at) && file.is_char_boundary(end) {
                file.replace_range(at..if keep { at } else { end }, PIECES[piece]);
            }
        }
        check(file.as_bytes());
    }

    #[test]
    fn a_good_file_with_other_bytes_never_panics(edits in vec((0..GOOD.len(), any::<u8>()), 1..4)) {
        let mut file = GOOD.as_bytes().to_vec();
        for (at, byte) in edits {
            file[at] = byte;
        }
        check(&file);
    }

    #[test]
    fn no_text_panics(text in ".{0,200}") {
        check(text.as_bytes());
    }

    #[test]
    fn no_pieces_of_yaml_panic(pieces in vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.into_iter().map(|i| PIECES[i]).collect();
        check(text.as_bytes());
        check(format!("version: 1\npolicies: {text}").as_bytes());
    }

    #[test]
    fn no_flags_panic(words in vec(".{0,12}|[0-9]{1,25}(/[a-z]{1,6}| per [0-9]{1,20}[a-z]{1,2})|[0-9]{1,20}s?", 7)) {
        let flags = LimitFlags {
            limit: &words[0],
            algorithm: ["gcra", "leaky-bucket", "fixed-window", words[1].as_str()][words[1].len() % 4],
            burst: Some(words[2].as_str()).filter(|w| w.len() % 2 == 0),
            queue: Some(words[3].as_str()).filter(|w| w.len() % 3 == 0),
            max_wait: Some(words[4].as_str()).filter(|w| w.len() % 2 == 0),
            align: ["epoch", "calendar", words[5].as_str()].get(words[5].len() % 5).copied(),
            timezone: ["UTC", words[6].as_str()].get(words[6].len() % 4).copied(),
        };
        if let Err(errors) = Config::single(&flags) {
            prop_assert!(!errors.is_empty());
            prop_assert!(errors.iter().all(|error| error.flag.starts_with("--")));
        }
    }
}
