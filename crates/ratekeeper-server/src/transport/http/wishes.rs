//! What the fields of a request wish for, whichever parser has found them.

/// Whether a `Prefer` field (RFC 7240) asks for refusals in the status: `status=429` among its preferences.
pub(super) fn asks_for_status(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|preference| {
        // What follows a semicolon are parameters, and none is known.
        let preference = preference.split(|byte| *byte == b';').next().unwrap_or_default();
        let mut parts = preference.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let value = value.trim_ascii();
        name.trim_ascii().eq_ignore_ascii_case(b"status") && (value == b"429" || value == b"\"429\"")
    })
}

/// Whether a `Content-Type` is JSON, whatever its parameters.
pub(super) fn is_json(value: &[u8]) -> bool {
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Whether a `Content-Encoding` says that there is none.
pub(super) fn is_identity(value: &[u8]) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(b"identity")
}
