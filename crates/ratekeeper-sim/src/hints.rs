//! What messages say of a stranger's text: the text itself, made harmless, and what was probably meant.

pub use ratekeeper_policy::nearest;

use ratekeeper_policy::is_invisible;

/// The longest piece of the input that a message repeats, in characters.
pub(crate) const MAX_QUOTE: usize = 40;

/// Text from outside as a message repeats it: between backticks, short, and without control characters.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quote: String = text.chars().take(MAX_QUOTE).map(harmless).collect();
    if text.chars().nth(MAX_QUOTE).is_some() {
        quote.push('…');
    }
    format!("`{quote}`")
}

/// A character as a message shows it: controls, and marks that turn or hide what is beside them, are replaced.
pub(crate) fn harmless(c: char) -> char {
    if is_invisible(c) || c.is_control() { char::REPLACEMENT_CHARACTER } else { c }
}

/// The most names that a message lists.
const MAX_LISTED: usize = 10;

/// What there is to choose from: `the file has a, b and 3 more`.
#[must_use]
pub fn file_has<'k>(names: impl IntoIterator<Item = &'k str>) -> String {
    let mut names = names.into_iter();
    let listed: Vec<&str> = names.by_ref().take(MAX_LISTED).collect();
    match (listed.is_empty(), names.count()) {
        (true, _) => "the file has none".to_owned(),
        (false, 0) => format!("the file has {}", listed.join(", ")),
        (false, more) => format!("the file has {} and {more} more", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests;
