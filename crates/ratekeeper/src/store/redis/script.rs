//! The scripts: the twins of the core's arithmetics, put together with what calls the server.

use super::link::Scripts;

const CLOCK: &str = include_str!("lua/clock.lua");
const QUICK: &str = include_str!("lua/quick.lua");
const EXACT: &str = include_str!("lua/exact.lua");
const METER: &str = include_str!("lua/meter.lua");
const FIXED: &str = include_str!("lua/fixed.lua");
const COUNTER: &str = include_str!("lua/counter.lua");
const LOG: &str = include_str!("lua/log.lua");
const FRAME: &str = include_str!("lua/frame.lua");
const DECIDE: &str = include_str!("lua/decide.lua");
const AMEND: &str = include_str!("lua/amend.lua");
const FINISH: &str = include_str!("lua/finish.lua");

/// How long a state of virtual time is kept in real time after it was last written.
const SIMULATED_MS: u64 = 3_600_000;

/// The scripts as servers run them: on their own clock.
pub(super) fn scripts() -> Scripts {
    Scripts { decide: decide(), amend: amend() }
}

/// The scripts of virtual time: the last argument is the instant, and states live for a while in real time. Only for
/// names of their own.
pub(super) fn simulated() -> Scripts {
    Scripts { decide: in_virtual_time(&decide()), amend: in_virtual_time(&amend()) }
}

/// What most ask is answered before the functions for all else come into being, which takes as long again.
fn decide() -> String {
    [CLOCK, QUICK, EXACT, METER, FIXED, COUNTER, LOG, FRAME, DECIDE, FINISH].concat()
}

fn amend() -> String {
    [CLOCK, EXACT, METER, FIXED, COUNTER, LOG, FRAME, AMEND, FINISH].concat()
}

/// Lines that read the clock or set an expiry say so, and only they are replaced.
fn in_virtual_time(text: &str) -> String {
    let line = |line: &str| match line {
        line if line.starts_with("local clock") && line.ends_with("--@CLOCK") => String::new(),
        line if line.ends_with("--@CLOCK") => "local now = tonumber(ARGV[#ARGV])".to_owned(),
        line if line.starts_with("local function lives") => {
            format!("local function lives() return 'PX', '{SIMULATED_MS}' end")
        }
        line if line.starts_with("local function log_lives") => {
            format!("local function log_lives(key) call('PEXPIRE', key, '{SIMULATED_MS}') end")
        }
        line if line.starts_with("local HOW = ") => "local HOW = 'PX'".to_owned(),
        line if line.ends_with("--@EXPIRY") => {
            let (ms, _) = line.split_once(" = ").unwrap_or((line, ""));
            format!("{ms} = '{SIMULATED_MS}'")
        }
        line => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{EXACT, scripts, simulated};

    const FILES: [&str; 10] = [
        super::CLOCK,
        super::QUICK,
        super::METER,
        super::FIXED,
        super::COUNTER,
        super::LOG,
        super::FRAME,
        super::DECIDE,
        super::AMEND,
        super::FINISH,
    ];

    #[test]
    fn the_clock_is_read_by_one_line() {
        for (text, expiries) in [(scripts().decide, 6), (scripts().amend, 2)] {
            assert_eq!(text.matches("'TIME'").count(), 1);
            assert_eq!(text.matches("--@CLOCK").count(), 2);
            assert_eq!(text.matches("--@EXPIRY").count(), expiries);
        }
        for text in [simulated().decide, simulated().amend] {
            let is_code = |line: &&str| !line.starts_with("--");
            let text: String = text.lines().filter(is_code).collect();
            assert!(!text.contains("TIME") && !text.contains("PXAT") && !text.contains("PEXPIREAT"));
        }
    }

    #[test]
    fn the_arithmetic_calls_no_server() {
        for text in [EXACT, super::METER, super::FIXED, super::COUNTER, super::LOG] {
            assert!(!text.contains("redis."), "only the frame calls the server");
        }
    }

    /// Text of a number has 14 digits in Lua, and numbers as arguments are written otherwise by some servers.
    #[test]
    fn numbers_become_text_by_format_only() {
        for line in FILES.iter().flat_map(|text| text.lines()) {
            assert!(!line.contains("tostring("), "{line}");
            // Three points are arguments.
            for part in line.replace("...", "").split("..").skip(1) {
                let part = part.trim_start();
                let is_text = [
                    "'",
                    "format(NUMBER, ",
                    "format(DIGITS, ",
                    "pack('>d', ",
                    "whole(",
                    "digits(",
                    "text",
                    "term[2]",
                    "term[7]",
                    "st.shape",
                    "st.other.shape",
                    "spec.shape",
                    "shape ",
                    "w ..",
                    "a ..",
                    "l,",
                    "l }",
                    "l\n",
                ];
                let ends_shape = line.contains("shape = w ..") || line.contains("shape = w .. 's'");
                assert!(
                    ends_shape
                        || line.trim_start().starts_with("--")
                        || is_text.iter().any(|t| part.starts_with(t)),
                    "{line}"
                );
            }
        }
    }
}
