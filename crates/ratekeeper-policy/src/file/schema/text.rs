//! JSON for people: a member a line, lists of plain values on one.

use crate::file::json;

pub(super) enum Json {
    Text(String),
    Number(u64),
    Flag(bool),
    /// Written already.
    Raw(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Json {
    /// The whole text, with a line feed at its end.
    pub(super) fn written(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        out.push('\n');
        out
    }

    fn is_plain(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Map(_))
    }

    /// What is written is a table of ours, and no deeper than that.
    fn write(&self, depth: usize, out: &mut String) {
        match self {
            Self::Text(text) => json::quote(text, out),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Raw(text) => out.push_str(text),
            Self::List(items) if items.iter().all(Self::is_plain) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.write(depth, out);
                }
                out.push(']');
            }
            Self::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    begin(i, depth, out);
                    item.write(depth + 1, out);
                }
                end(depth, out);
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    begin(i, depth, out);
                    json::quote(name, out);
                    out.push_str(": ");
                    value.write(depth + 1, out);
                }
                end(depth, out);
                out.push('}');
            }
        }
    }
}

/// A line of its own for the next of several.
fn begin(i: usize, depth: usize, out: &mut String) {
    out.push_str(if i > 0 { ",\n" } else { "\n" });
    out.push_str(&"  ".repeat(depth + 1));
}

fn end(depth: usize, out: &mut String) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}
