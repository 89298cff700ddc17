//! Requests and policies: paths, patterns and the index mean what a slow reader, written otherwise, makes of them.
//!
//! Lines: the target, the host, the method and the value of a header; then a policy each: method, path, host and
//! header, apart by spaces, `-` for one that is not there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratekeeper_policy::{Facts, Index, Match, NormalPath, Seen, fuzzing};

/// Longer texts take the table of the slow matcher long, and show nothing new.
const LONGEST: usize = 256;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.split('\n').map(|line| line.get(..LONGEST).unwrap_or(line));
    let mut line = || lines.next().unwrap_or_default();
    let (target, host, method, value) = (line(), line(), line(), line());
    let path = normal(target);
    let own = NormalPath::new(target).map(|path| path.map(|path| path.to_string()));
    assert_eq!(own.as_ref().ok(), path.as_ref(), "{target:?}");
    if let Some(Some(path)) = &path {
        let again = NormalPath::new(path).expect("not above its root").expect("a path");
        assert_eq!(again.as_str(), path, "{target:?}");
    }
    let headers = [("X", value.as_bytes())];
    let facts = Facts {
        method: Some(method),
        target: Some(target),
        host: Some(host),
        headers: &headers,
        ..Facts::default()
    };
    let Ok(seen) = Seen::new(&facts) else { return };
    let request = Request {
        method,
        path: path.flatten(),
        host: plain_host(authority(target).unwrap_or(host)),
        value: value.trim_ascii(),
    };
    let policies: Vec<(Match, bool)> = lines.take(16).filter_map(|line| policy(line, &request)).collect();
    let fitting = |(policy, (conditions, fits)): (usize, &(Match, bool))| {
        assert_eq!(conditions.fits(&seen).is_ok(), *fits, "{conditions}: {facts:?}");
        fits.then_some(policy)
    };
    let fitting: Vec<usize> = policies.iter().enumerate().filter_map(fitting).collect();
    let index = Index::new(policies.iter().map(|(conditions, _)| conditions));
    let candidates = index.candidates(&seen);
    let found: Vec<usize> = candidates.filter(|policy| policies[*policy].0.fits(&seen).is_ok()).collect();
    assert_eq!(found, fitting);
    for a in &fitting {
        assert!(fitting.iter().all(|b| policies[*a].0.can_meet(&policies[*b].0)));
    }
});

struct Request<'a> {
    method: &'a str,
    path: Option<String>,
    host: String,
    value: &'a str,
}

/// A policy, and whether the request fits it; None if it is refused.
fn policy(line: &str, request: &Request<'_>) -> Option<(Match, bool)> {
    let mut fields = line.split(' ').map(|field| Some(field).filter(|field| *field != "-"));
    let mut field = || fields.next().flatten();
    let (method, path, host, header) = (field(), field(), field(), field());
    if let Some(path) = path.filter(|path| !path.contains(['*', '{', '}'])) {
        let is_normal = normal(path) == Some(Some(path.to_owned()));
        assert_eq!(fuzzing::pattern(path).is_some(), is_normal && path.split('/').count() <= 129, "{path:?}");
    }
    let conditions = fuzzing::matching(method, path, host, header)?;
    let fits = method.is_none_or(|method| method == request.method)
        && path.is_none_or(|pattern| request.path.as_ref().is_some_and(|path| fits_path(pattern, path)))
        && host.is_none_or(|host| fits_text(&host.to_lowercase(), &request.host))
        && header.is_none_or(|header| fits_text(header, request.value));
    Some((conditions, fits))
}

/// Host and port of a target that names them.
fn authority(target: &str) -> Option<&str> {
    let lower = target.to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme))?;
    let rest = &target[scheme.len()..];
    rest.split(['/', '?', '#']).next()?.rsplit('@').next()
}

fn plain_host(sent: &str) -> String {
    let mut host = sent.to_ascii_lowercase();
    if let (true, Some(end)) = (host.starts_with('['), host.rfind(']')) {
        host.truncate(end + 1);
    } else if host.matches(':').count() == 1 {
        host.truncate(host.find(':').expect("one"));
    }
    if host.ends_with('.') {
        host.pop();
    }
    host
}

/// What stands for one character of a path.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Plain(u8),
    Coded(u8),
    /// A percent sign that begins nothing.
    Stray,
}

fn units(segment: &str) -> Vec<Unit> {
    let bytes = segment.as_bytes();
    let (mut units, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code = segment.get(at + 1..at + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                units.push(Unit::Coded(code));
                at += 2;
            }
            (b'%', None) => units.push(Unit::Stray),
            (byte, _) if b"-._~!$&'()*+,;=:@".contains(&byte) || byte.is_ascii_alphanumeric() => {
                units.push(Unit::Plain(byte))
            }
            (byte, _) => units.push(Unit::Coded(byte)),
        }
        at += 1;
    }
    units
}

fn normal_segment(segment: &str) -> String {
    let mut units = units(segment);
    for i in 0..units.len() {
        let Unit::Coded(byte) = units[i] else { continue };
        let before = |n: usize| i.checked_sub(n).map(|i| units[i]);
        let is_hex = |unit| matches!(unit, Some(Unit::Plain(byte)) if byte.is_ascii_hexdigit());
        let after_stray =
            before(1) == Some(Unit::Stray) || before(2) == Some(Unit::Stray) && is_hex(before(1));
        let would_code = byte.is_ascii_hexdigit() && after_stray;
        if (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) && !would_code {
            units[i] = Unit::Plain(byte);
        }
    }
    let text = |unit: &Unit| match unit {
        Unit::Plain(byte) => char::from(*byte).to_string(),
        Unit::Coded(byte) => format!("%{byte:02X}"),
        Unit::Stray => "%".to_owned(),
    };
    units.iter().map(text).collect()
}

/// None if it leads above its root or is no target; None within if it is one without a path.
fn normal(target: &str) -> Option<Option<String>> {
    let target = target.split('#').next().unwrap_or_default();
    let target = target.split('?').next().unwrap_or_default();
    let path = match authority(target) {
        Some(_) => {
            let after = &target[target.find("://").expect("a scheme") + 3..];
            after.find('/').map_or("/", |at| &after[at..])
        }
        None => target,
    };
    if !path.starts_with('/') {
        let authority = path.rsplit_once(':').filter(|(host, port)| {
            !host.is_empty()
                && host.chars().all(|c| c > ' ' && c < '\x7f' && c != '/')
                && !port.is_empty()
                && port.chars().all(|c| c.is_ascii_digit())
        });
        return (path == "*" || authority.is_some()).then_some(None);
    }
    let mut stack: Vec<String> = Vec::new();
    for segment in path.split('/').map(normal_segment) {
        match segment.as_str() {
            "" | "." => {}
            ".." => {
                stack.pop()?;
            }
            _ => stack.push(segment),
        }
    }
    Some(Some(format!("/{}", stack.join("/"))))
}

/// By what a pattern says, segment by segment.
fn fits_path(pattern: &str, path: &str) -> bool {
    let segments = |text: &str| -> Vec<String> {
        text.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
    };
    let (mut pattern, mut path) = (segments(pattern), segments(path));
    if pattern.last().is_some_and(|last| last == "**") {
        pattern.pop();
        if path.len() < pattern.len() {
            return false;
        }
        path.truncate(pattern.len());
    }
    let one =
        |(pattern, segment): (&String, &String)| pattern.starts_with('{') || fits_text(pattern, segment);
    pattern.len() == path.len() && pattern.iter().zip(&path).all(one)
}

/// By a table: whether so much of the pattern fits so much of the text.
fn fits_text(pattern: &str, text: &str) -> bool {
    let text = text.as_bytes();
    let mut row: Vec<bool> = (0..=text.len()).map(|length| length == 0).collect();
    for byte in pattern.bytes() {
        let mut next = vec![false; text.len() + 1];
        for length in 0..=text.len() {
            next[length] = match byte {
                b'*' => row[length] || length > 0 && next[length - 1],
                _ => length > 0 && row[length - 1] && text[length - 1] == byte,
            };
        }
        row = next;
    }
    row[text.len()]
}
