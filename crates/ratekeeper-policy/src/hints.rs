//! "did you mean": nearest names, and texts of strangers made fit to be shown.

/// Longer texts are not searched for near names: they are no slip of the fingers.
const MAX_SEARCHED_CHARS: usize = 64;
/// How much of a text is quoted in a message.
const MAX_SHOWN_CHARS: usize = 64;

/// The name nearest to what was typed, if it is near enough to be meant.
///
/// Case and `_` for `-` count for nothing; otherwise a letter too many, too few, wrong or swapped counts 1,
/// and one in three may be wrong.
#[must_use]
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(typed)?;
    let most = typed.len().div_ceil(3);
    let near = |name: &'a str| {
        let folded = folded(name)?;
        // Each letter that one has more than the other is an edit.
        if folded.len().abs_diff(typed.len()) > most {
            return None;
        }
        let distance = distance(&typed, &folded);
        (distance <= most).then_some((distance, name))
    };
    // `min_by_key` keeps the first of several: the order of the table decides.
    names.into_iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

fn folded(text: &str) -> Option<Vec<char>> {
    if text.is_empty() || text.chars().nth(MAX_SEARCHED_CHARS).is_some() {
        return None;
    }
    let fold = |c: char| if matches!(c, '_' | ' ') { '-' } else { c.to_ascii_lowercase() };
    Some(text.chars().map(fold).collect())
}

/// Edits between two words, a swap of neighbours counted once.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut edits = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                edits = edits.min(before_last[j - 1] + 1);
            }
            row.push(edits);
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// `did you mean …?` for the nearest name, else the whole list.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(typed, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => one_of(names),
    }
}

/// ``one of `a`, `b` or `c` ``.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => format!("only {last}"),
        Some((last, others)) => format!("one of {} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A text as it may be printed: controls and marks that turn the reading direction are escaped, and what is
/// too long is cut.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MAX_SHOWN_CHARS {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters without width, and those that turn the reading direction.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A number with its thousands set apart, as messages show it.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
