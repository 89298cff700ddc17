//! Addresses and sizes as the file writes them.

use core::net::SocketAddr;

use crate::config::{GIB, KIB, MIB};
use crate::hints::shown;
use crate::limit::parse_number;

/// An address with a port, or a host name with one. Port 0 is any free port.
pub(super) fn is_address(text: &str) -> bool {
    if text.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let label = |label: &str| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits only is an address that could not be read, not a name (RFC 3696, 2).
    let named = host.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| !b.is_ascii_digit()));
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    host.len() <= 253 && host.split('.').all(label) && named && digits && port.parse::<u16>().is_ok()
}

const SIZES: [(&str, u64); 4] = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("B", 1)];

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
