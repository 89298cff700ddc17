//! The names of the commands in a stream of requests.

use std::collections::BTreeMap;

/// No command's name is longer; what follows is not kept.
const MAX_NAME: usize = 32;

/// Reads requests as they pass, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct CommandReader {
    /// The header line so far.
    line: Vec<u8>,
    /// Bytes of the word that are still to come, with the two that end it.
    bytes: u64,
    /// Whether the word is the command's name.
    is_name: bool,
    name: Vec<u8>,
}

impl CommandReader {
    /// Adds the commands whose names are complete after `piece` to `counts`, by name in capitals.
    pub(super) fn read(&mut self, piece: &[u8], counts: &mut BTreeMap<String, u64>) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if self.bytes == 0 {
                self.header_byte(byte);
                rest = after;
                continue;
            }
            let taken = rest.len().min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
            if self.is_name {
                let room = MAX_NAME.saturating_sub(self.name.len());
                self.name.extend_from_slice(&rest[..taken.min(room)]);
            }
            self.bytes -= taken as u64;
            rest = &rest[taken..];
            if self.bytes == 0 && self.is_name {
                let name = String::from_utf8_lossy(&self.name).trim_end().to_ascii_uppercase();
                *counts.entry(name).or_default() += 1;
                self.is_name = false;
                self.name.clear();
            }
        }
    }

    fn header_byte(&mut self, byte: u8) {
        if byte != b'\n' {
            self.line.push(byte);
            return;
        }
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let number = |digits: &str| digits.trim_end().parse::<u64>().ok();
        if text.starts_with('*') {
            self.is_name = true;
        } else if let Some(length) = text.strip_prefix('$').and_then(number) {
            self.bytes = length + 2;
        }
    }
}
