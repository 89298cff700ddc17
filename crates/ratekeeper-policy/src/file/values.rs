//! Sizes as the file writes them.

use crate::hints::shown;
use crate::limit::parse_number;
use crate::stores::{GIB, KIB, MIB};

pub(super) const SIZES: [(&str, u64); 4] = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("B", 1)];

/// `COUNT (B | KiB | MiB | GiB)`; more than `u64` holds is `u64::MAX`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = SIZES.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    let count = parse_number("", count).ok()?;
    Some(count.saturating_mul(*unit))
}

pub(super) fn size_hint(text: &str) -> String {
    let count: String = text.chars().take_while(char::is_ascii_digit).collect();
    let unit = text[count.len()..].trim().to_ascii_lowercase();
    let meant = match unit.as_str() {
        "k" | "kb" | "kib" => "KiB",
        "m" | "mb" | "mib" => "MiB",
        "g" | "gb" | "gib" => "GiB",
        "" => "B",
        _ => return String::from("for example `256MiB`"),
    };
    if count.is_empty() {
        String::from("for example `256MiB`")
    } else {
        format!("write `{}{meant}`", shown(&count))
    }
}
