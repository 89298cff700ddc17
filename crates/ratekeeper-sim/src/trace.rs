//! Traces: JSON lines of timed steps, read strictly and one at a time.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read as _};

use ratekeeper_core::Micros;

use crate::hints::{harmless, nearest, quoted};
use crate::json::{Flaw, Object, Places};

/// The longest line of a trace. A step needs a hundred bytes, and sixteen keys of the greatest length still fit
/// four times over; without a bound a file that is no trace at all would be read into memory whole.
pub const MAX_LINE_BYTES: usize = 64 * 1_024;

/// The widest piece of a wrong line that a message shows, in characters.
const MAX_EXCERPT: usize = 100;

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Take units.
    Acquire,
    /// Say what taking them would answer.
    Peek,
    /// Forget the key.
    Reset,
    /// Give back what the step of this number took, by the safe rule.
    Refund(u64),
    /// Credit units, at most up to full.
    Credit,
}

impl Op {
    const NAMES: [&str; 4] = ["acquire", "peek", "reset", "refund"];
}

/// One step as a line says it. What it names has not been looked up yet.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// When.
    pub at: Micros,
    /// What to do.
    pub op: Op,
    /// Whose limits; `None`: those of the run.
    pub policy: Option<Cow<'a, str>>,
    /// The policy's own key.
    pub key: Option<Cow<'a, str>>,
    /// Keys of limits that have another.
    pub keys: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// How many units.
    pub cost: u64,
    /// Where the line says so.
    pub places: Places<'a>,
}

impl<'a> Step<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(line: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        let mut object = Object::parse(line).map_err(|flaw| vec![flaw])?;
        let at = object.whole("t_us", Micros::MAX.get());
        if !object.has("t_us") {
            object.wrong("t_us", "`t_us` is missing: the time of the step in microseconds".to_owned(), None);
        }
        let key = object.text("key");
        let cost = object.whole("cost", u64::MAX).unwrap_or(1);
        let policy = object.text("policy");
        let keys = object.keys("keys");
        let op = object.text("op");
        let of = object.whole("of", u64::MAX);
        let op = match (op.as_deref(), of) {
            (Some("refund"), Some(step)) => Op::Refund(step),
            (Some("refund"), None) => Op::Credit,
            (word, Some(_)) => {
                let word = word.unwrap_or("acquire");
                object.wrong(
                    "of",
                    format!("`of` belongs to `\"op\":\"refund\"`, not to {}", quoted(word)),
                    None,
                );
                Op::Acquire
            }
            (None | Some("acquire"), None) => Op::Acquire,
            (Some("peek"), None) => Op::Peek,
            (Some("reset"), None) => Op::Reset,
            (Some(word), None) => {
                let hint = match nearest(word, Op::NAMES) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("known are {}", Op::NAMES.join(", ")),
                };
                object.wrong("op", format!("unknown op {}", quoted(word)), Some(hint));
                Op::Acquire
            }
        };
        let places = object.finish()?;
        Ok(Self { at: Micros::new(at.unwrap_or(0)), op, policy, key, keys, cost, places })
    }
}

/// A line that ended the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongLine {
    /// Which, from 1, empty ones counted.
    pub number: u64,
    /// The line, as far as it is shown.
    pub line: String,
    /// What is wrong with it: at least one thing.
    pub flaws: Vec<Flaw>,
}

impl WrongLine {
    /// The message, every flaw with its place in `file` and what to write instead.
    #[must_use]
    pub fn in_file<'w>(&'w self, file: &'w str) -> impl fmt::Display + 'w {
        fmt::from_fn(move |f| {
            for (i, flaw) in self.flaws.iter().enumerate() {
                if i > 0 {
                    writeln!(f)?;
                }
                self.write_flaw(f, file, flaw)?;
            }
            Ok(())
        })
    }

    fn write_flaw(&self, f: &mut fmt::Formatter<'_>, file: &str, flaw: &Flaw) -> fmt::Result {
        // `at` may lie inside of a character if the line is not UTF-8 and was mended for show.
        let at =
            (0..=flaw.at.min(self.line.len())).rev().find(|i| self.line.is_char_boundary(*i)).unwrap_or(0);
        let (before, from) = self.line.split_at(at);
        let column = before.chars().count();
        let skipped = column.saturating_sub(MAX_EXCERPT / 2);
        let before: String = before.chars().skip(skipped).map(harmless).collect();
        let room = MAX_EXCERPT - before.chars().count();
        let after: String = from.chars().take(room).map(harmless).collect();
        let wide = from.char_indices().take(room).take_while(|(i, _)| *i < flaw.len).count().max(1);
        let number = self.number.to_string();
        let gutter = " ".repeat(number.len());
        let head = if skipped > 0 { "…" } else { "" };
        let tail = if from.chars().nth(room).is_some() { "…" } else { "" };
        let indent = " ".repeat(before.chars().count() + head.chars().count());
        writeln!(f, "error: line {number}: {}", flaw.message)?;
        writeln!(f, "{gutter}--> {file}:{number}:{}", column + 1)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {head}{before}{after}{tail}")?;
        write!(f, "{gutter} | {indent}{}", "^".repeat(wide))?;
        match &flaw.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

/// The lines of a trace, one in memory at a time.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) const fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// Goes to the next line that is not empty; `false` at the end. A line that is too long is a wrong line.
    pub(crate) fn advance(&mut self) -> io::Result<Result<bool, WrongLine>> {
        loop {
            self.line.clear();
            // One more for the newline, one more to see that there is more.
            let most = MAX_LINE_BYTES as u64 + 2;
            if self.input.by_ref().take(most).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(Ok(false));
            }
            self.number += 1;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if self.line.len() > MAX_LINE_BYTES {
                let message = format!("the line is longer than {MAX_LINE_BYTES} bytes");
                let flaw = Flaw { pointer: String::new(), at: 0, len: 1, message, hint: None };
                return Ok(Err(self.wrong(vec![flaw])));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Ok(true));
            }
        }
    }

    pub(crate) fn current(&self) -> &[u8] {
        &self.line
    }

    /// The current line as a wrong one.
    pub(crate) fn wrong(&self, flaws: Vec<Flaw>) -> WrongLine {
        WrongLine { number: self.number, line: String::from_utf8_lossy(&self.line).into_owned(), flaws }
    }
}

#[cfg(test)]
mod tests;
