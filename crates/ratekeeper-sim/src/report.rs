//! The answer lines of a run. Written by hand: names need no escapes, and the order of the fields is a promise.

use std::io::{self, Write};
use std::time::Duration;

use ratekeeper_core::{Check, Decision, Micros};

/// Writes one answer as a line of JSON, in whole microseconds.
///
/// `checks` are the questions that `decision` answers, in the same order.
///
/// # Errors
/// If `out` does not take it.
pub fn write_line(
    out: &mut impl Write,
    at: Micros,
    checks: &[Check<'_>],
    decision: &Decision,
) -> io::Result<()> {
    write!(out, "{{\"t_us\":{},\"allowed\":{}", at.get(), decision.allowed)?;
    if let Some(reason) = decision.reason {
        write!(out, ",\"reason\":\"{}\"", reason.name())?;
    }
    write!(out, ",\"remaining\":{},\"retry_after_us\":", decision.remaining)?;
    match decision.retry_after {
        Some(wait) => write!(out, "{}", micros(wait))?,
        None => out.write_all(b"null")?,
    }
    write!(
        out,
        ",\"reset_after_us\":{},\"delay_us\":{},\"limit\":",
        micros(decision.reset_after),
        micros(decision.delay)
    )?;
    match checks.get(decision.binding) {
        Some(check) => write!(out, "\"{}\"", check.limit.name())?,
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\"limits\":[")?;
    for (i, (check, verdict)) in checks.iter().zip(decision.limits()).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(
            out,
            "{comma}{{\"name\":\"{}\",\"remaining\":{},\"reset_after_us\":{}}}",
            check.limit.name(),
            verdict.remaining(),
            micros(verdict.reset_after())
        )?;
    }
    out.write_all(b"]}\n")
}

/// Waits are whole microseconds everywhere; should one ever have a part of one, it rounds up as waits do.
fn micros(wait: Duration) -> u128 {
    wait.as_nanos().div_ceil(1_000)
}
