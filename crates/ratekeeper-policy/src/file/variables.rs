//! `${VAR}` and `${VAR:-default}` in plain scalars.

use crate::fault::{Fault, code};
use crate::hints;

/// The text with its variables replaced, as a shell does: `:-` stands in for an unset or empty variable.
/// A `$` that begins no variable is itself.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Fault> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((variable, tail)) = after.split_once('}') else {
            return Err(Fault::new(code::BAD_VARIABLE, "`${` without `}`")
                .hint("write `${VAR}` or `${VAR:-default}`; quoted text is not expanded"));
        };
        out.push_str(&value(variable, env)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

/// The first variable of a text, by its name.
pub(super) fn first(text: &str) -> Option<&str> {
    text.split("${").skip(1).find_map(|rest| {
        let (variable, _) = rest.split_once('}')?;
        let name = variable.split_once(":-").map_or(variable, |(name, _)| name);
        is_name(name).then_some(name)
    })
}

fn value(variable: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Fault> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if !is_name(name) {
        return Err(Fault::new(
            code::BAD_VARIABLE,
            format!("`{}` is no name of an environment variable", hints::shown(name)),
        )
        .hint("write `${VAR}` or `${VAR:-default}`"));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let name = hints::shown(name);
            Err(Fault::new(code::UNSET_VARIABLE, format!("environment variable `{name}` is not set"))
                .hint(format!("set it, or write `${{{name}:-default}}`")))
        }
    }
}

fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(good) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}
