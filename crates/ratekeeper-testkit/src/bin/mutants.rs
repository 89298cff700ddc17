//! Plants known faults of rate limiters into a copy of the sources, one by one, and prints which test caught
//! which: `cargo run -p ratekeeper-testkit --bin mutants [NAME...]`.
//!
//! A fault that no test catches, or whose place has moved, ends the run with 1.

#[path = "mutants/numbers.rs"]
mod numbers;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A fault: where it goes, and what it does.
struct Mutant {
    /// Under which name it is known; the tests' names say which property caught it.
    name: &'static str,
    what: &'static str,
    file: &'static str,
    good: &'static str,
    bad: &'static str,
    /// The crate whose tests are to catch it.
    tests: &'static str,
}

const CORE: &str = "ratekeeper-core";
const LIBRARY: &str = "ratekeeper";
const METER: &str = "crates/ratekeeper-core/src/algorithm/meter.rs";
const QUEUE: &str = "crates/ratekeeper-core/src/algorithm/queue.rs";
const FIXED: &str = "crates/ratekeeper-core/src/algorithm/fixed_window.rs";
const COUNTER: &str = "crates/ratekeeper-core/src/algorithm/sliding_window_counter.rs";
const LOG: &str = "crates/ratekeeper-core/src/algorithm/sliding_window_log.rs";
const DECISION: &str = "crates/ratekeeper-core/src/decision.rs";
const LIMIT: &str = "crates/ratekeeper-core/src/limit.rs";
const STORE: &str = "crates/ratekeeper-core/src/store.rs";
const REQUEST: &str = "crates/ratekeeper/src/store/memory/request.rs";
const TABLE: &str = "crates/ratekeeper/src/store/memory/mod.rs";
const BATCH: &str = "crates/ratekeeper/src/store/memory/batch.rs";
const RECEIPT: &str = "crates/ratekeeper/src/receipt.rs";

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "wait-one-period-short",
        what: "retry_after = TAT - burst - now, without the cost",
        file: METER,
        good: "end.minus(limit.span(), limit.q()).ceil().saturating_sub(now)",
        bad: "base(view, now).minus(limit.span(), limit.q()).ceil().saturating_sub(now).max(end.us.min(1))",
        tests: CORE,
    },
    Mutant {
        name: "burst-off-by-one",
        what: "the last unit of the burst is refused",
        file: METER,
        good: "(end <= Exact::whole(now)",
        bad: "(end < Exact::whole(now)",
        tests: CORE,
    },
    Mutant {
        name: "truncated-interval",
        what: "the emission interval in whole microseconds",
        file: LIMIT,
        good: "unit_part: (p % q) as u32,",
        bad: "unit_part: 0,",
        tests: CORE,
    },
    Mutant {
        name: "wait-rounded-down",
        what: "a fractional wait is truncated",
        file: METER,
        good: "self.us + u64::from(self.part > 0)",
        bad: "self.us",
        tests: CORE,
    },
    Mutant {
        name: "estimate-before-adding",
        what: "the sliding counter compares before it adds the cost",
        file: COUNTER,
        good: "if cost > room(limit, counts, now) {",
        bad: "if room(limit, counts, now) == 0 || counts.current + cost > limit.capacity() {",
        tests: CORE,
    },
    Mutant {
        name: "estimate-rounded-down",
        what: "the fading count is rounded down",
        file: COUNTER,
        good: "whole + u64::from(rest)",
        bad: "{ let _ = rest; whole }",
        tests: CORE,
    },
    Mutant {
        name: "retry-at-window-end",
        what: "a sliding window says that it is over at the end of the window",
        file: COUNTER,
        good: "admitted_at.saturating_sub(now)",
        bad: "(counts.start + width).max(admitted_at.min(now + 1)).saturating_sub(now)",
        tests: CORE,
    },
    Mutant {
        name: "write-on-refusal",
        what: "a refused request pushes the bucket's time on",
        file: DECISION,
        good: "evaluation.verdict.outcome = Outcome::Limited;",
        bad: "evaluation.verdict.outcome = Outcome::Limited;
                if limit.rule() == Rule::Meter && ask == Ask::Acquire {
                    evaluation.healed = true;
                    evaluation.verdict.state = State::from_words([now + limit.span_us, 0]);
                }",
        tests: CORE,
    },
    Mutant {
        name: "refusals-count",
        what: "the window counts first and compares then",
        file: DECISION,
        good: "evaluation.verdict.outcome = Outcome::Limited;",
        bad: "evaluation.verdict.outcome = Outcome::Limited;
                if limit.rule() == Rule::Fixed && ask == Ask::Acquire {
                    let [first, second] = view.words();
                    evaluation.healed = true;
                    evaluation.verdict.state = State::from_words([first, second.saturating_add(1 << 34)]);
                }",
        tests: CORE,
    },
    Mutant {
        name: "key-without-limit",
        what: "two limits of one policy count into one state",
        file: STORE,
        good: "let parts = [policy.as_str(), name.as_str(), limit.kind().name()];",
        bad: "let parts = [policy.as_str()];",
        tests: LIBRARY,
    },
    Mutant {
        name: "each-limit-for-itself",
        what: "a limit that allows takes its cost although another refuses",
        file: DECISION,
        good: "Outcome::Limited | Outcome::NoRoom | Outcome::Closed if step == Step::Take => step = Step::Heal,",
        bad: "Outcome::Limited | Outcome::NoRoom | Outcome::Closed if step == Step::Take => {}",
        tests: CORE,
    },
    Mutant {
        name: "retry-is-longest-reset",
        what: "retry_after is the longest reset, of passing limits too",
        file: DECISION,
        good: "if !verdict.allowed() && (longer || decision.reason.is_none()) {",
        bad: "let wait = wait.map(|_| decision.reset_after);
            if !verdict.allowed() && (longer || decision.reason.is_none()) {",
        tests: CORE,
    },
    Mutant {
        name: "closed-log-window",
        what: "an entry counts for a microsecond too long",
        file: LOG,
        good: "self.entries.partition_point(|e| e.at <= dead)",
        bad: "self.entries.partition_point(|e| e.at < dead)",
        tests: CORE,
    },
    Mutant {
        name: "log-forgets-costs",
        what: "a log counts requests, not units",
        file: LOG,
        good: "let total = self.total() + cost;",
        bad: "let total = self.total() + cost.min(1);",
        tests: CORE,
    },
    Mutant {
        name: "refund-everything",
        what: "a bucket gives back what has drained already",
        file: METER,
        good: "taken.minus(Exact::whole(now - token.at), limit.q());",
        bad: "taken;",
        tests: CORE,
    },
    Mutant {
        name: "refund-after-loss",
        what: "a refund is believed although the state was lost or healed",
        file: METER,
        good: "if now < token.at || tat < Exact::whole(token.at).plus(taken, limit.q()) {",
        bad: "if now < token.at {",
        tests: CORE,
    },
    Mutant {
        name: "promised-slot-moves",
        what: "any slot of a queue is given back, not the last one only",
        file: QUEUE,
        good: "if Exact::from(state) == end && token.at <= now",
        bad: "let _ = end; if token.at <= now",
        tests: CORE,
    },
    Mutant {
        name: "part-drains-first",
        what: "the last units of an admission come back in full, as long as any of it has not drained",
        file: METER,
        good: "tat.minus(undrained.min(limit.units(token.cost())), limit.q()).into()",
        bad: "tat.minus(if undrained.us > 0 { limit.units(token.cost()) } else { undrained }, limit.q()).into()",
        tests: CORE,
    },
    Mutant {
        name: "part-takes-the-entry",
        what: "giving back some of its units forgets a log's entry",
        file: LOG,
        good: "if token.from == 0 {",
        bad: "if token.from < token.to {",
        tests: CORE,
    },
    Mutant {
        name: "rest-of-a-slot-forgotten",
        what: "after a part of a slot has come back its rest is looked for at its old end",
        file: QUEUE,
        good: "u64::from(token.taken - token.to));",
        bad: "u64::from(token.taken - token.taken.max(token.to)));",
        tests: CORE,
    },
    Mutant {
        name: "parts-overlap",
        what: "the token of the rest stands for the units that came back, too",
        file: "crates/ratekeeper-core/src/algorithm/mod.rs",
        good: "(first.to, second.from) = (middle, middle);",
        bad: "second.from = middle; if middle == first.from { first.to = middle; }",
        tests: CORE,
    },
    Mutant {
        name: "queue-too-long",
        what: "max_wait is forgotten",
        file: QUEUE,
        good: "if wait(limit, view, now) > Exact::whole(limit.max_wait_us) {",
        bad: "if wait(limit, view, now) > Exact::whole(u64::MAX) {",
        tests: CORE,
    },
    Mutant {
        name: "no-healing",
        what: "a bucket stays locked for as long as the clock jumped",
        file: METER,
        good: "if at.heals {",
        bad: "if at.heals && at.us() == u64::MAX {",
        tests: CORE,
    },
    Mutant {
        name: "heal-to-fresh",
        what: "a window from the future is forgotten",
        file: FIXED,
        good: "stored.count.min(limit.capacity())), true)",
        bad: "0), true)",
        tests: CORE,
    },
    Mutant {
        name: "no-guard",
        what: "a small step back opens the old window a second time",
        file: FIXED,
        good: "stored.start - now > guard_us(stored.length)",
        bad: "stored.start - now > 0",
        tests: CORE,
    },
    Mutant {
        name: "look-takes",
        what: "a peek writes",
        file: DECISION,
        good: "let mut step = if ask == Ask::Peek { Step::Nothing } else { Step::Take };",
        bad: "let mut step = Step::Take; let _ = ask;",
        tests: CORE,
    },
    Mutant {
        name: "never-becomes-later",
        what: "a cost above the capacity gets a finite wait",
        file: DECISION,
        good: "None if cost > limit.capacity() => Outcome::TooLarge,",
        bad: "None if cost > limit.capacity().saturating_mul(2) => Outcome::TooLarge,",
        tests: CORE,
    },
    Mutant {
        name: "each-part-alone",
        what: "a key that is named twice passes twice",
        file: REQUEST,
        good: "match merged.iter().position(same) {",
        bad: "match merged.iter().position(same).filter(|i| *i == usize::MAX) {",
        tests: LIBRARY,
    },
    Mutant {
        name: "live-entry-evicted",
        what: "a newcomer takes the place of an entry that is not fresh",
        file: "crates/ratekeeper/src/store/memory/rows.rs",
        good: "!taken(*slot) && slots.idle_at(*slot, limit.as_ref()).is_some_and(|idle_at| idle_at <= now)",
        bad: "!taken(*slot) && slots.idle_at(*slot, limit.as_ref()).is_some_and(|at| at.get() <= now.get() + 60_000_000)",
        tests: LIBRARY,
    },
    Mutant {
        name: "overflow-forgets",
        what: "a key that took units without a place comes back fresh",
        file: "crates/ratekeeper/src/store/memory/overflow.rs",
        good: "marks.has(query.hash)",
        bad: "marks.has(query.hash) && query.hash.0 == 0",
        tests: LIBRARY,
    },
    Mutant {
        name: "clock-read-twice",
        what: "two limits of a request are decided at two instants",
        file: REQUEST,
        good: "let now = same.map_or_else(|| query.store.clock.now(), |i| request.moments[i].now);",
        bad: "let _ = same; let now = query.store.clock.now();",
        tests: LIBRARY,
    },
    Mutant {
        name: "spilled-bucket-not-searched",
        what: "a key that lies in its second bucket is taken for a newcomer",
        file: TABLE,
        good: "let mut locked = first.has_spilled(Spilled::ToSecond).then(second);",
        bad: "let mut locked = (first.has_spilled(Spilled::ToSecond) && self.is_overflowing()).then(second);",
        tests: LIBRARY,
    },
    Mutant {
        name: "amended-under-another-limit",
        what: "a refund reads and writes the state by the limit that was charged, whatever wrote it since",
        file: REQUEST,
        good: "let Some(limit) = q.store.shapes.limit(shape) else { continue };",
        bad: "let Some(limit) = q.store.shapes.limit(q.shape) else { continue };",
        tests: LIBRARY,
    },
    Mutant {
        name: "overflow-counted-apart",
        what: "two placeless keys of one request are each asked of the same state",
        file: REQUEST,
        good: "costs[leader] = costs[leader].saturating_add(self.queries[i].cost);",
        bad: "costs[leader] = costs[leader].max(self.queries[i].cost);",
        tests: LIBRARY,
    },
    Mutant {
        name: "flood-for-ever",
        what: "who took units without a place is remembered for ever",
        file: "crates/ratekeeper/src/store/memory/overflow.rs",
        good: "self.generations[0].fill(0);",
        bad: "self.generations[0][0] |= 0;",
        tests: LIBRARY,
    },
    Mutant {
        name: "short-cut-of-its-own",
        what: "the hot path takes a look for an admission",
        file: DECISION,
        good: "let asks_for_units = cost > 0 && ask == Ask::Acquire;",
        bad: "let asks_for_units = cost > 0;",
        tests: LIBRARY,
    },
    Mutant {
        name: "reset-clears-everybody",
        what: "a reset of a placeless key clears the state that all placeless keys share",
        file: REQUEST,
        good: "if purpose != Purpose::Amend(Reach::Own) {",
        bad: "if purpose != Purpose::Decide || newcomers {",
        tests: LIBRARY,
    },
    Mutant {
        name: "plans-forget-each-other",
        what: "a new plan of placeless keys begins with nothing used",
        file: "crates/ratekeeper/src/store/memory/overflow.rs",
        good: "let (units, state) = converted.max_by_key(|(units, _)| *units).unwrap_or((0, State::FRESH));",
        bad: "let (units, state) = (converted.count() as u64 * 0, State::FRESH);",
        tests: LIBRARY,
    },
    Mutant {
        name: "refusal-forgets-the-cut",
        what: "a refusal by a smaller limit forgets what that cannot hold, also for the larger one that comes back",
        file: "crates/ratekeeper/src/store/memory/both.rs",
        good: "Both::new(mine, side).map(|both| (BOTH, both.into()))",
        bad: "Both::new(mine, side).map(|_| (query.shape, self.state))",
        tests: LIBRARY,
    },
    Mutant {
        name: "cut-side-stands-still",
        what: "what a smaller limit admits is not counted for the larger one that comes back",
        file: "crates/ratekeeper/src/store/memory/both.rs",
        good: "(side.tat_us.max(now) + taken)",
        bad: "side.tat_us.max(now)",
        tests: LIBRARY,
    },
    Mutant {
        name: "batch-keeps-its-reading",
        what: "a batch goes on with a reading of the clock that one of its decisions has overtaken",
        file: BATCH,
        good: "|| *early = self.reading_ahead())",
        bad: "|| {})",
        tests: LIBRARY,
    },
    Mutant {
        name: "healing-clock-read-ahead",
        what: "a clock that may step back is read before the lock",
        file: BATCH,
        good: "if self.clock.heals() { None } else { Some(self.clock.now()) }",
        bad: "Some(self.clock.now())",
        tests: LIBRARY,
    },
    Mutant {
        name: "batch-question-takes-neighbours",
        what: "a request of a batch that cannot be asked leaves its limits to the next one",
        file: BATCH,
        good: "queries.truncate(before);",
        bad: "let _ = before;",
        tests: LIBRARY,
    },
    Mutant {
        name: "first-part-back-first",
        what: "what a settled admission took later comes back after what it took first",
        file: RECEIPT,
        good: "tokens.into_iter().rev()",
        bad: "tokens.into_iter()",
        tests: LIBRARY,
    },
    Mutant {
        name: "twice-named-settled-once",
        what: "a key that is named twice is settled by the larger number, not by the sum",
        file: RECEIPT,
        good: "sum.saturating_add(more)",
        bad: "sum.max(more)",
        tests: LIBRARY,
    },
    Mutant {
        name: "settled-below-empty",
        what: "what was reserved too low is charged although it is not there",
        file: "crates/ratekeeper/src/store/memory/amend.rs",
        good: "verdicts[query] = Some(if evaluation.allowed() {",
        bad: "verdicts[query] = Some(if asked.cost > 0 {",
        tests: LIBRARY,
    },
    Mutant {
        name: "charged-by-an-old-limit",
        what: "a charge converts the state to the limit that it was reserved under",
        file: "crates/ratekeeper/src/store/memory/amend.rs",
        good: "let asked = Query { limit, ..queries[query] };",
        bad: "let asked = queries[query];",
        tests: LIBRARY,
    },
];

/// All of them: faults of decisions, and faults of the numbers that go with one.
fn all() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().chain(numbers::MUTANTS)
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match run(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(wanted: &[String]) -> io::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let copy = root.join("target/mutants/tree");
    copy_tree(&root, &copy)?;
    let mut out = io::stdout().lock();
    for crate_name in [CORE, LIBRARY] {
        writeln!(io::stderr(), "the tests of {crate_name} without a fault ...")?;
        let failed = failing_tests(&copy, crate_name)?;
        if !failed.is_empty() {
            writeln!(out, "{crate_name} fails without any fault: {}", failed.join(", "))?;
            return Ok(false);
        }
    }
    let mut all_caught = true;
    let chosen = || all().filter(|m| wanted.is_empty() || wanted.iter().any(|w| w == m.name));
    for (number, mutant) in chosen().enumerate() {
        writeln!(io::stderr(), "{} of {}: {} ...", number + 1, chosen().count(), mutant.name)?;
        let file = copy.join(mutant.file);
        let good = std::fs::read_to_string(&file)?;
        let verdict = if good.matches(mutant.good).count() == 1 {
            std::fs::write(&file, good.replace(mutant.good, mutant.bad))?;
            let failed = failing_tests(&copy, mutant.tests)?;
            std::fs::write(&file, &good)?;
            if failed.is_empty() {
                all_caught = false;
                "NOT CAUGHT".to_owned()
            } else {
                format!("caught by {}", first_few(&failed))
            }
        } else {
            all_caught = false;
            format!("NOT PLANTED: its place in {} has changed", mutant.file)
        };
        writeln!(out, "{:<28} {}\n{:<28} {verdict}", mutant.name, mutant.what, "")?;
        out.flush()?;
    }
    Ok(all_caught)
}

fn first_few(failed: &[String]) -> String {
    let more = failed.len().saturating_sub(3);
    let first = failed.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// What git tracks, copied; files that are the same stay, so that little is built again.
fn copy_tree(root: &Path, copy: &Path) -> io::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to): (PathBuf, PathBuf) = (root.join(path), copy.join(path));
        let Ok(text) = std::fs::read(&from) else { continue };
        if std::fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(to, text)?;
    }
    Ok(())
}

/// Names of the tests of a crate that fail; one line saying so if it does not even build.
fn failing_tests(tree: &Path, crate_name: &str) -> io::Result<Vec<String>> {
    // A fault may make a loop endless or a log boundless: then the bounds end the tests, which is caught, too.
    let bounded = r#"ulimit -v 8000000; exec timeout 300 "$0" "$@""#;
    let output = Command::new("sh")
        .args(["-c", bounded, env!("CARGO")])
        .args(["test", "--offline", "--no-fail-fast", "-p", crate_name, "--lib", "--test", "it"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", tree.with_file_name("build"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let mut failed: Vec<String> = failed.map(str::to_owned).collect();
    failed.dedup();
    if failed.is_empty() && !output.status.success() && text.contains("running ") {
        failed.push("the bounds on time and memory".to_owned());
    } else if failed.is_empty() && !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().find(|line| line.starts_with("error")).unwrap_or("error");
        return Err(io::Error::other(format!("{crate_name} does not build: {first}")));
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_has_its_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for mutant in all() {
            let text = std::fs::read_to_string(root.join(mutant.file)).unwrap();
            assert_eq!(text.matches(mutant.good).count(), 1, "{} in {}", mutant.name, mutant.file);
        }
    }

    #[test]
    fn mutants_have_names_of_their_own() {
        let mut names: Vec<&str> = all().map(|m| m.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
