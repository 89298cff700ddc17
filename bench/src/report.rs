//! The tables, as markdown.

use std::fmt;
use std::time::Duration;

use crate::Effort;
use crate::cases::{self, MANY, MILLION, SIZES};
use crate::latency::Latencies;
use crate::machine::Machine;
use crate::measure::{Case, Load, median, percentile, ratios, waited_share};

pub(crate) struct Run<'r> {
    pub(crate) cases: &'r [Case],
    pub(crate) latencies: &'r Latencies,
    pub(crate) memory: &'r [(&'static str, Option<f64>)],
    pub(crate) machine: &'r Machine,
    pub(crate) effort: Effort,
    pub(crate) elapsed: Duration,
}

/// Largest share of governor's time for a decision at a million String keys.
const MILLION_KEYS_TARGET: f64 = 0.25;
/// Largest share of governor's time, which has no batches, for a decision of a batch at a million String keys.
const BATCH_TARGET: f64 = 1.0 / 12.0;
/// Largest share of governor's time for a decision on one hot key.
const HOT_KEY_TARGET: f64 = 2.0 / 3.0;
const BYTES_TARGET: f64 = 48.0;
/// Another design takes the table's place if it is so much faster.
const ALTERNATIVE_TARGET: f64 = 1.5;

/// A number with two digits at least.
fn short(value: f64) -> String {
    match value {
        value if value.is_nan() => "–".to_owned(),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

impl Run<'_> {
    fn find(&self, subject: &str, load: Load, keys: u64, threads: usize) -> Option<&Case> {
        self.cases
            .iter()
            .find(|case| (case.subject, case.load, case.keys, case.threads) == (subject, load, keys, threads))
    }

    fn ns(&self, subject: &str, load: Load, keys: u64, threads: usize) -> String {
        self.find(subject, load, keys, threads)
            .map_or_else(|| "–".to_owned(), |case| short(median(&case.samples)))
    }

    fn bytes(&self, subject: &str) -> Option<f64> {
        self.memory.iter().find(|(name, _)| *name == subject)?.1
    }

    fn keyed(&self, f: &mut fmt::Formatter<'_>, load: Load, subjects: &[&str]) -> fmt::Result {
        writeln!(f, "| ns per decision | 1 thread: 1 key | 100 k | 1 M | 2 threads: 1 key | 100 k | 1 M |")?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for subject in subjects {
            write!(f, "| {subject} ")?;
            for threads in [1, 2] {
                for keys in SIZES {
                    write!(f, "| {} ", self.ns(subject, load, keys, threads))?;
                }
            }
            writeln!(f, "|")?;
        }
        Ok(())
    }

    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### Keyed, nearly all allowed (10⁹ a second)\n")?;
        self.keyed(
            f,
            Load::Allowed,
            &[
                cases::GOVERNOR_STRING,
                cases::GOVERNOR_FAST,
                cases::RATEKEEPER_TEXT,
                cases::RATEKEEPER_BATCH,
                cases::GOVERNOR_NUMBER,
                cases::RATEKEEPER_NUMBER,
            ],
        )?;
        writeln!(f, "\n### Keyed, nearly all denied (1 an hour)\n")?;
        self.keyed(
            f,
            Load::Denied,
            &[
                cases::GOVERNOR_STRING,
                cases::RATEKEEPER_TEXT,
                cases::RATEKEEPER_BATCH,
                cases::GOVERNOR_NUMBER,
                cases::RATEKEEPER_NUMBER,
            ],
        )?;

        writeln!(f, "\n### Keyed, one at a time (allowed, 1 thread)\n")?;
        writeln!(f, "| ns per decision, with writing the key | 100 k | 1 M |\n|---|---|---|")?;
        for subject in [cases::GOVERNOR_STRING, cases::RATEKEEPER_TEXT] {
            let ns = |keys| self.ns(subject, Load::OneAtATime, keys, 1);
            writeln!(f, "| {subject} | {} | {} |", ns(MANY), ns(MILLION))?;
        }

        writeln!(f, "\n### No key\n")?;
        writeln!(f, "| ns per decision | 1 thread: allowed | denied | 2 threads: allowed | denied |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        for subject in [cases::GOVERNOR_DIRECT, cases::RATEKEEPER_DIRECT] {
            let ns = |load, threads| self.ns(subject, load, 0, threads);
            writeln!(
                f,
                "| {subject} | {} | {} | {} | {} |",
                ns(Load::Allowed, 1),
                ns(Load::Denied, 1),
                ns(Load::Allowed, 2),
                ns(Load::Denied, 2)
            )?;
        }

        writeln!(f, "\n### Bytes per key (1 M keys)\n\n| map | bytes |\n|---|---|")?;
        for (subject, bytes) in self.memory {
            writeln!(f, "| {subject} | {} |", short(bytes.unwrap_or(f64::NAN)))?;
        }
        Ok(())
    }

    fn information(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n### Other algorithms of ratekeeper (&str, 100 k keys, 1 thread)\n")?;
        writeln!(f, "| algorithm | ns per decision | allowed |\n|---|---|---|")?;
        for (name, _) in cases::ALGORITHMS {
            if let Some(case) = self.find(name, Load::Information, MANY, 1) {
                let (ns, allowed) = (median(&case.samples), 100.0 * case.allowed_share());
                writeln!(f, "| {name} | {} | {allowed:.0} % |", short(ns))?;
            }
        }

        writeln!(f, "\n### The table beside another design (1 M keys, allowed)\n")?;
        writeln!(f, "| ns per decision | 1 thread | 2 threads |\n|---|---|---|")?;
        for subject in
            [cases::RATEKEEPER_TEXT, cases::RATEKEEPER_LIVE, cases::RATEKEEPER_ROOMY, cases::SHARDED]
        {
            let ns = |threads| self.ns(subject, Load::Allowed, MILLION, threads);
            writeln!(f, "| {subject} | {} | {} |", ns(1), ns(2))?;
        }
        let newcomers = self.ns(cases::NEWCOMERS, Load::Information, MANY, 1);
        writeln!(f, "| {} (100 k places) | {newcomers} | – |", cases::NEWCOMERS)?;

        writeln!(f, "\n### Single decisions (1 M keys, allowed, 1 thread)\n")?;
        writeln!(f, "| ns, with the timer's own | p50 | p99 | p99.9 |\n|---|---|---|---|")?;
        for (subject, times) in self.latencies.all() {
            let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|p| short(percentile(times, p)));
            writeln!(f, "| {subject} | {p50} | {p99} | {p999} |")?;
        }

        writeln!(f, "\n### What the figures contain\n\n| part | ns |\n|---|---|")?;
        for (subject, keys) in [
            (cases::LOOP, MILLION),
            (cases::LOOP_WRITING, MILLION),
            (cases::LOADS, MILLION),
            (cases::LOADS_CLOCK, MILLION),
            (cases::LOADS_DEPENDENT, MILLION),
            (cases::CLOCK_OURS, 0),
            (cases::CLOCK_QUANTA, 0),
            (cases::CLOCK_STD, 0),
        ] {
            let ns = self.ns(subject, Load::Information, keys, 1);
            writeln!(f, "| {subject} | {ns} |")?;
        }
        Ok(())
    }

    /// One line of the targets: the median of the rounds' ratios, their middle half and their extremes.
    fn ratio(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        pair: [(&str, Load); 2],
        keys: u64,
        threads: usize,
        target: Option<f64>,
    ) -> fmt::Result {
        let [ours, theirs] = pair.map(|(subject, load)| self.find(subject, load, keys, threads));
        let Some((ours, theirs)) = ours.zip(theirs) else {
            return Ok(());
        };
        let ratios = ratios(ours, theirs);
        let ratio = median(&ratios);
        let [low, q1, q3, high] = [0.0, 25.0, 75.0, 100.0].map(|p| percentile(&ratios, p));
        let (bound, verdict) = match target {
            None => ("–".to_owned(), "for information"),
            Some(target) if ratio <= target => (format!("≤ {target:.3}"), "pass"),
            Some(target) => (format!("≤ {target:.3}"), "**miss**"),
        };
        writeln!(f, "| {what} | {ratio:.3} | {q1:.3}–{q3:.3} | {low:.3}–{high:.3} | {bound} | {verdict} |")
    }

    fn targets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Load::{Allowed, Denied, OneAtATime};
        const OURS: &str = cases::RATEKEEPER_TEXT;
        const THEIRS: &str = cases::GOVERNOR_STRING;
        writeln!(f, "\n### Targets\n")?;
        writeln!(
            f,
            "| ratekeeper ÷ governor, String keys, its default | median of rounds | middle half | all rounds | target | |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        let beside = |load| [(OURS, load), (THEIRS, load)];
        let target = Some(MILLION_KEYS_TARGET);
        self.ratio(f, "1 M keys, 1 thread", beside(Allowed), MILLION, 1, target)?;
        self.ratio(f, "1 M keys, 2 threads", beside(Allowed), MILLION, 2, None)?;
        let batch = [(cases::RATEKEEPER_BATCH, Allowed), (THEIRS, Allowed)];
        self.ratio(f, "1 M keys, 16 at a time, 1 thread", batch, MILLION, 1, Some(BATCH_TARGET))?;
        self.ratio(f, "1 M keys, 16 at a time, 2 threads", batch, MILLION, 2, None)?;
        let hot = self.machine.has_tsc.then_some(HOT_KEY_TARGET);
        self.ratio(f, "one hot key, 1 thread", beside(Allowed), 1, 1, hot)?;
        self.ratio(f, "one hot key, 2 threads", beside(Allowed), 1, 2, None)?;
        self.ratio(f, "100 k keys, 1 thread", beside(Allowed), MANY, 1, None)?;
        self.ratio(f, "1 M keys, denied, 1 thread", beside(Denied), MILLION, 1, None)?;
        self.ratio(f, "one hot key, denied, 1 thread", beside(Denied), 1, 1, None)?;
        self.ratio(f, "1 M keys, one at a time", beside(OneAtATime), MILLION, 1, None)?;
        let direct = [(cases::RATEKEEPER_DIRECT, Allowed), (cases::GOVERNOR_DIRECT, Allowed)];
        self.ratio(f, "no key (governor without key)", direct, 0, 1, None)?;
        let tuned = [(OURS, Allowed), (cases::GOVERNOR_FAST, Allowed)];
        self.ratio(f, "1 M keys, governor with foldhash", tuned, MILLION, 1, None)?;
        let numbers = [(cases::RATEKEEPER_NUMBER, Allowed), (cases::GOVERNOR_NUMBER, Allowed)];
        self.ratio(f, "1 M keys, u64 both", numbers, MILLION, 1, None)?;
        let design = [(OURS, Allowed), (cases::SHARDED, Allowed)];
        let target = Some(ALTERNATIVE_TARGET);
        self.ratio(f, "1 M keys ÷ 64 shards, 1 thread", design, MILLION, 1, target)?;
        self.ratio(f, "1 M keys ÷ 64 shards, 2 threads", design, MILLION, 2, target)?;

        let bytes = self.bytes(OURS).unwrap_or(f64::NAN);
        let verdict = if bytes <= BYTES_TARGET { "pass" } else { "**miss**" };
        writeln!(
            f,
            "| bytes per key, 1 M keys (not a ratio) | {bytes:.1} | | | ≤ {BYTES_TARGET:.0} | {verdict} |"
        )
    }

    /// Whether each case measured what it says it does.
    fn doubts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.cases {
            let share = case.allowed_share();
            let doubtful = match case.load {
                Load::Allowed | Load::OneAtATime => share < 0.99,
                Load::Denied => share > 0.01,
                Load::Information => false,
            };
            if doubtful {
                writeln!(
                    f,
                    "\n**Not to be trusted:** {} ({:?}, {} keys) allowed {:.1} %.",
                    case.subject,
                    case.load,
                    case.keys,
                    100.0 * share
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "## ratekeeper beside governor\n\nMedians of {} interlaced rounds, samples of about {} ms; {:.0} s in all.\n",
            self.effort.rounds,
            self.effort.sample.as_millis(),
            self.elapsed.as_secs_f64()
        )?;
        write!(f, "{}", self.machine)?;
        let waited = 100.0 * waited_share(self.cases);
        writeln!(
            f,
            "- other programs had the CPU for {waited:.1} % of the measured time (taken out of the figures)\n"
        )?;
        self.tables(f)?;
        self.information(f)?;
        self.targets(f)?;
        self.doubts(f)
    }
}
