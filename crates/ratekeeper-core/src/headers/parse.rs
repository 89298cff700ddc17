//! The two `RateLimit` fields as others write them, read: lists of RFC 9651, and the dictionary of older drafts.
//!
//! Structured fields are all or nothing: one wrong byte, and the field counts as not sent. What is well formed and
//! says something else (a type, a sign, a parameter that is missing) is left out by itself.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::Quota;

/// Longer fields are not read: a limit is told in some 30 bytes, so this is room for hundreds.
pub const MAX_FIELD_BYTES: usize = 8 * 1024;
/// Limits that are taken from one field, the first ones: as many as a request may have here.
pub const MAX_FIELD_ITEMS: usize = 16;
/// Digits of an integer in a structured field.
const MAX_INTEGER_DIGITS: usize = 15;
/// Digits before and after the point of a decimal.
const MAX_WHOLE_DIGITS: usize = 12;
const MAX_PART_DIGITS: usize = 3;

/// What an answer tells about one limit in the field `RateLimit`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToldLimit<'a> {
    /// The policy's name; empty in the dialect that had none.
    pub name: Cow<'a, str>,
    /// What remains: `r`, `a` or `remaining`.
    pub remaining: u64,
    /// Seconds until there is more: `t`, `w` or `reset`.
    pub seconds: Option<u64>,
    /// The whole quota, in the dialect that has it here: `limit`.
    pub limit: Option<u64>,
}

/// What an answer tells about one limit in the field `RateLimit-Policy`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToldPolicy<'a> {
    /// The policy's name; empty in the dialect that had none.
    pub name: Cow<'a, str>,
    /// `q` units within `w` seconds; `w` is not 0.
    pub quota: Quota,
}

/// Reads a `RateLimit` field, of which several lines are joined by commas.
///
/// Taken are lists of names with `r` and `t`, or `a` and `w` as they may be called next, and the dictionary
/// `limit=10, remaining=0, reset=7`. An item without a whole number from 0 for what remains is left out, and so is
/// a time that is none. `None`: the field is not well formed, or longer than [`MAX_FIELD_BYTES`].
///
/// ```
/// use ratekeeper_core::read_limit_field;
/// let told = read_limit_field(r#""burst";r=9;t=1, "day";r=0;t=36000"#).expect("it is well formed");
/// assert_eq!((told[1].name.as_ref(), told[1].remaining, told[1].seconds), ("day", 0, Some(36_000)));
/// assert_eq!(read_limit_field("limit=10, remaining=0, reset=7").expect("the same, as it was")[0].remaining, 0);
/// assert_eq!(read_limit_field(r#""burst";r=9, garbage@@"#), None);
/// ```
#[must_use]
pub fn read_limit_field(field: &str) -> Option<Vec<ToldLimit<'_>>> {
    if field.len() > MAX_FIELD_BYTES {
        return None;
    }
    let mut told = Vec::new();
    let listed = Reader::new(field).list(|item, numbers| {
        let (Some(name), Some(remaining)) = (item.into_name(), numbers.r.or(numbers.a)) else { return };
        if told.len() < MAX_FIELD_ITEMS {
            told.push(ToldLimit { name, remaining, seconds: numbers.t.or(numbers.w), limit: None });
        }
    });
    if listed.is_none() {
        let [limit, remaining, seconds] = Reader::new(field).dictionary(["limit", "remaining", "reset"])?;
        told.clear();
        told.extend(remaining.map(|remaining| ToldLimit {
            name: Cow::Borrowed(""),
            remaining,
            seconds,
            limit,
        }));
    }
    Some(told)
}

/// Reads a `RateLimit-Policy` field, of which several lines are joined by commas.
///
/// Taken are names with `q` and `w`, and the older `100;w=60`. An item without both is left out. `None`: the field
/// is not well formed, or longer than [`MAX_FIELD_BYTES`].
#[must_use]
pub fn read_policy_field(field: &str) -> Option<Vec<ToldPolicy<'_>>> {
    if field.len() > MAX_FIELD_BYTES {
        return None;
    }
    let mut told = Vec::new();
    Reader::new(field).list(|item, numbers| {
        let units = match item {
            Bare::Integer(n) => u64::try_from(n).ok(),
            _ => numbers.q,
        };
        let name = match item {
            Bare::Integer(_) => Some(Cow::Borrowed("")),
            other => other.into_name(),
        };
        let seconds = numbers.w.filter(|seconds| *seconds > 0);
        if let (Some(name), Some(units), Some(seconds)) = (name, units, seconds)
            && told.len() < MAX_FIELD_ITEMS
        {
            told.push(ToldPolicy { name, quota: Quota { units, seconds } });
        }
    })?;
    Some(told)
}

/// A value without its parameters.
enum Bare<'a> {
    Integer(i64),
    Name(Cow<'a, str>),
    /// Well formed, and nothing that these fields mean.
    Other,
}

impl<'a> Bare<'a> {
    fn into_name(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Name(name) => Some(name),
            Self::Integer(_) | Self::Other => None,
        }
    }
}

/// The parameters of an item that these fields know. Of a name that comes twice, the last counts.
#[derive(Default)]
struct Numbers {
    r: Option<u64>,
    t: Option<u64>,
    a: Option<u64>,
    w: Option<u64>,
    q: Option<u64>,
}

/// What is left of a field. Every step returns `None` at the first byte that does not belong.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn new(field: &'a str) -> Self {
        Self { rest: field.trim_matches(' ') }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            // All bytes that are eaten are ASCII, so this is a boundary.
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        found
    }

    /// The bytes from here that are of a kind, all ASCII.
    fn take_while(&mut self, kind: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !byte.is_ascii() || !kind(byte));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A list; each member that is no list itself is handed to `each`.
    fn list(mut self, mut each: impl FnMut(Bare<'a>, Numbers)) -> Option<()> {
        if self.rest.is_empty() {
            return Some(());
        }
        loop {
            let (item, numbers) = self.member()?;
            each(item, numbers);
            if !self.comma()? {
                return Some(());
            }
        }
    }

    /// A dictionary: the numbers from 0 under three keys.
    fn dictionary(mut self, keys: [&str; 3]) -> Option<[Option<u64>; 3]> {
        let mut found = [None; 3];
        loop {
            let key = self.key()?;
            let value = if self.eat(b'=') {
                match self.member()?.0 {
                    Bare::Integer(n) => u64::try_from(n).ok(),
                    _ => None,
                }
            } else {
                self.parameters()?;
                None
            };
            if let Some(place) = keys.iter().position(|known| *known == key)
                && let Some(found) = found.get_mut(place)
            {
                *found = value;
            }
            if !self.comma()? {
                return Some(found);
            }
        }
    }

    /// Whether there is another member: after a comma there must be.
    fn comma(&mut self) -> Option<bool> {
        self.take_while(|byte| byte == b' ' || byte == b'\t');
        if self.rest.is_empty() {
            return Some(false);
        }
        if !self.eat(b',') {
            return None;
        }
        self.take_while(|byte| byte == b' ' || byte == b'\t');
        (!self.rest.is_empty()).then_some(true)
    }

    /// An item or a list within the list, with its parameters.
    fn member(&mut self) -> Option<(Bare<'a>, Numbers)> {
        if self.eat(b'(') {
            loop {
                self.take_while(|byte| byte == b' ');
                if self.eat(b')') {
                    return Some((Bare::Other, self.parameters()?));
                }
                self.bare()?;
                self.parameters()?;
                if !matches!(self.peek(), Some(b' ' | b')')) {
                    return None;
                }
            }
        }
        Some((self.bare()?, self.parameters()?))
    }

    fn parameters(&mut self) -> Option<Numbers> {
        let mut numbers = Numbers::default();
        while self.eat(b';') {
            self.take_while(|byte| byte == b' ');
            let key = self.key()?;
            let value = if self.eat(b'=') { self.bare()? } else { Bare::Other };
            let number = match value {
                Bare::Integer(n) => u64::try_from(n).ok(),
                _ => None,
            };
            match key {
                "r" => numbers.r = number,
                "t" => numbers.t = number,
                "a" => numbers.a = number,
                "w" => numbers.w = number,
                "q" => numbers.q = number,
                _ => {}
            }
        }
        Some(numbers)
    }

    fn key(&mut self) -> Option<&'a str> {
        let starts = matches!(self.peek(), Some(b'a'..=b'z' | b'*'));
        let more = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*');
        starts.then(|| self.take_while(more))
    }

    fn bare(&mut self) -> Option<Bare<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Bare::Name),
            b'-' | b'0'..=b'9' => self.number(),
            b'A'..=b'Z' | b'a'..=b'z' | b'*' => Some(Bare::Name(Cow::Borrowed(self.take_while(is_token)))),
            b'?' => {
                self.eat(b'?');
                (self.eat(b'0') || self.eat(b'1')).then_some(Bare::Other)
            }
            b':' => {
                self.eat(b':');
                self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.eat(b':').then_some(Bare::Other)
            }
            b'@' => {
                self.eat(b'@');
                matches!(self.number()?, Bare::Integer(_)).then_some(Bare::Other)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.eat(b'"');
        let plain = |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        let text = self.take_while(plain);
        if self.eat(b'"') {
            return Some(Cow::Borrowed(text));
        }
        let mut whole = String::from(text);
        loop {
            if self.eat(b'"') {
                return Some(Cow::Owned(whole));
            }
            if !self.eat(b'\\') {
                return None;
            }
            let escaped = if self.eat(b'"') {
                '"'
            } else if self.eat(b'\\') {
                '\\'
            } else {
                return None;
            };
            whole.push(escaped);
            whole.push_str(self.take_while(plain));
        }
    }

    /// An integer, or a decimal, which these fields do not mean.
    fn number(&mut self) -> Option<Bare<'a>> {
        let negative = self.eat(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let part = self.take_while(|byte| byte.is_ascii_digit()).len();
            let fits =
                (1..=MAX_WHOLE_DIGITS).contains(&digits.len()) && (1..=MAX_PART_DIGITS).contains(&part);
            return fits.then_some(Bare::Other);
        }
        if digits.len() > MAX_INTEGER_DIGITS {
            return None;
        }
        let n: i64 = digits.parse().ok()?;
        Some(Bare::Integer(if negative { -n } else { n }))
    }

    /// Text in UTF-8 with escapes, as in RFC 9651: its form is looked at, and its encoding.
    fn display_string(&mut self) -> Option<Bare<'a>> {
        self.eat(b'%');
        if !self.eat(b'"') {
            return None;
        }
        let mut bytes = Vec::new();
        loop {
            let plain = self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'%');
            bytes.extend_from_slice(plain.as_bytes());
            if self.eat(b'"') {
                return core::str::from_utf8(&bytes).ok().map(|_| Bare::Other);
            }
            if !self.eat(b'%') {
                return None;
            }
            let digits = self.rest.get(..2)?;
            if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            self.rest = self.rest.get(2..).unwrap_or_default();
        }
    }
}

const fn is_token(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
            | b':'
            | b'/'
    ) || byte.is_ascii_alphanumeric()
}
