//! One event as one line.

use std::fmt::Write as _;

use ratekeeper_core::Micros;
use ratekeeper_policy::is_invisible;

use super::{Format, Level};

/// How much of a text is shown: twice the longest key, so that keys are whole.
const MAX_TEXT_CHARS: usize = 2_048;

/// A line that is being written. A field is written where it is named, so fields have an order.
pub(super) struct Line {
    text: String,
    format: Format,
}

impl Line {
    /// Begins with what every line has.
    pub(super) fn start(format: Format, now: Micros, level: Level, event: &'static str) -> Self {
        let mut line = Self { text: String::with_capacity(256), format };
        match format {
            Format::Text => {
                write_instant(&mut line.text, now);
                line.text.extend([" ", level.name(), " ", event]);
            }
            Format::Json => {
                line.text.push_str("{\"ts\":\"");
                write_instant(&mut line.text, now);
                line.text.push('"');
                line.text("level", level.name());
                line.text("event", event);
            }
        }
        line
    }

    /// A field that is anybody's text.
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        self.name(name);
        if self.format == Format::Text && is_plain(value) {
            self.text.push_str(value);
        } else {
            write_quoted(&mut self.text, value);
        }
    }

    /// A field that is a number.
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        self.name(name);
        write_to(&mut self.text, format_args!("{value}"));
    }

    /// The line with its end; `dropped` are the lines of its kind that were not written since the last.
    pub(super) fn end(mut self, dropped: u64) -> String {
        if dropped > 0 {
            self.number("dropped", dropped);
        }
        self.text.push_str(match self.format {
            Format::Text => "\n",
            Format::Json => "}\n",
        });
        self.text
    }

    fn name(&mut self, name: &'static str) {
        match self.format {
            Format::Text => self.text.extend([" ", name, "="]),
            Format::Json => self.text.extend([",\"", name, "\":"]),
        }
    }
}

/// Whether a text is written without quotes.
fn is_plain(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'=');
    !text.is_empty() && text.len() <= MAX_TEXT_CHARS && text.bytes().all(plain)
}

/// A JSON string, in both formats: what ends a line, moves a terminal's cursor, or turns or hides what is
/// beside it is escaped.
fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for (i, c) in text.chars().enumerate() {
        if i == MAX_TEXT_CHARS {
            out.push('…');
            break;
        }
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write_to(out, format_args!("\\u{unit:04x}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Controls (U+0085 among them), separators of lines, marks of direction, and what has no width of its own.
fn is_hidden(c: char) -> bool {
    // The Arabic letter mark, the Mongolian vowel separator, annotations, and tags.
    let others = matches!(c, '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_invisible(c) || others
}

/// An instant as lines show it.
pub(crate) fn instant(instant: Micros) -> String {
    let mut text = String::new();
    write_instant(&mut text, instant);
    text
}

/// RFC 3339 in UTC, to the microsecond.
fn write_instant(out: &mut String, instant: Micros) {
    let us = instant.get();
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    write_to(out, format_args!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z"));
}

/// The date of a day since the Unix epoch: Howard Hinnant's `civil_from_days`. Years begin in March there, so
/// that a leap day is the last of its year.
const fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_ERA: u64 = 146_097; // 400 years
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (next, month) = if month < 10 { (0, month + 3) } else { (1, month - 9) };
    (era * 400 + year + next, month, day)
}

fn write_to(out: &mut String, args: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = out.write_fmt(args);
}

#[cfg(test)]
mod tests;
