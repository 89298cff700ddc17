//! What a plain scalar is by the core schema of YAML 1.2. `yes`, `no`, `on` and `off` are text.

/// The kind of a plain scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    Text,
}

impl Kind {
    pub(super) fn of(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Self::Bool,
            _ if is_number(text) => Self::Number,
            _ => Self::Text,
        }
    }

    /// With its article, for messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool => "a truth value",
            Self::Number => "a number",
            Self::Text => "text",
        }
    }
}

fn is_number(text: &str) -> bool {
    let all = |text: &str, good: fn(&u8) -> bool| !text.is_empty() && text.as_bytes().iter().all(good);
    if let Some(octal) = text.strip_prefix("0o") {
        return all(octal, |b| matches!(b, b'0'..=b'7'));
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return all(hexadecimal, u8::is_ascii_hexdigit);
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|text| all(text.strip_prefix(['-', '+']).unwrap_or(text), u8::is_ascii_digit))
}

#[cfg(test)]
mod tests;
