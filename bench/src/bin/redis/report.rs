//! The tables, as markdown, and the samples, as JSON.

use std::fmt;
use std::time::Duration;

use crate::Effort;
use crate::cases::{self, Case};
use crate::latency::Lone;
use crate::load::{CALLERS, KEYS, Sample};
use crate::memory::Footprint;

pub(crate) struct Report<'r> {
    pub(crate) cases: &'r [Case],
    pub(crate) singles: &'r [Lone],
    pub(crate) memory: &'r [Footprint],
    pub(crate) server: &'r str,
    pub(crate) effort: &'r Effort,
    pub(crate) elapsed: Duration,
}

/// Smallest multiple of the plain client's decisions in a second.
const RATE_TARGET: f64 = 1.6;
/// Largest share of its time of the server for a decision.
const CPU_TARGET: f64 = 0.65;
/// Two limits cost less than so many times one.
const TWO_TARGET: f64 = 1.5;
/// Largest multiple of the plain client's slowest hundredth.
const SINGLE_TARGET: f64 = 1.2;

fn percentile(sorted: &[f64], p: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1)) as f64 * p / 100.0;
    sorted.get(at.round() as usize).copied().unwrap_or(f64::NAN)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

type Figure = fn(&Sample) -> f64;

const RATE: Figure = |sample| sample.per_second;
const REDIS: Figure = |sample| sample.redis_us;
const CLIENT: Figure = |sample| sample.client_us;
const ALLOWED: Figure = |sample| sample.allowed;
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

impl Report<'_> {
    fn find(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name() == name)
    }

    fn median(case: &Case, figure: Figure) -> f64 {
        percentile(&sorted(case.samples.iter().map(figure)), 50.0)
    }

    /// The ratios of the rounds, sorted.
    fn ratios(&self, [ours, theirs]: [&str; 2], figure: Figure) -> Vec<f64> {
        let Some((ours, theirs)) = self.find(ours).zip(self.find(theirs)) else { return Vec::new() };
        sorted(ours.samples.iter().zip(&theirs.samples).map(|(a, b)| figure(a) / figure(b)))
    }

    fn targets(&self) -> Vec<(String, Vec<f64>, f64, bool)> {
        let plain = [cases::OURS, cases::PLAIN];
        let mut targets = vec![
            ("ours ÷ plain: decisions a second".to_owned(), self.ratios(plain, RATE), RATE_TARGET, true),
            ("ours ÷ plain: Redis CPU".to_owned(), self.ratios(plain, REDIS), CPU_TARGET, false),
        ];
        for (name, what) in [(cases::TWO_OF_A_KEY, "two of a user"), (cases::USER_AND_ALL, "user and all")] {
            let pair = [name, cases::OURS];
            targets.push((format!("{what} ÷ one: Redis CPU"), self.ratios(pair, REDIS), TWO_TARGET, false));
            let times = sorted(self.ratios(pair, RATE).into_iter().map(f64::recip));
            targets.push((format!("{what} ÷ one: time"), times, TWO_TARGET, false));
        }
        for (what, [ours, theirs], p, bound) in [
            ("ours ÷ plain: p99 of a lone caller", [cases::OURS, cases::PLAIN], 99.0, SINGLE_TARGET),
            (
                "two of a user ÷ one: p50 of a lone caller",
                [cases::TWO_OF_A_KEY, cases::OURS],
                50.0,
                TWO_TARGET,
            ),
        ] {
            let of = |name: &str| self.singles.iter().find(|lone| lone.name == name).map(|lone| &lone.rounds);
            let Some((ours, theirs)) = of(ours).zip(of(theirs)) else { continue };
            let ratios = ours.iter().zip(theirs).map(|(a, b)| percentile(a, p) / percentile(b, p));
            targets.push((what.to_owned(), sorted(ratios), bound, false));
        }
        targets
    }

    pub(crate) fn json(&self) -> String {
        let case = |case: &Case| {
            let of = |figure| array(case.samples.iter().map(figure));
            let figures: [(&str, Figure); 4] =
                [("per_second", RATE), ("redis_us", REDIS), ("client_us", CLIENT), ("allowed", ALLOWED)];
            let figures = figures.map(|(name, figure)| format!(r#""{name}":{}"#, of(figure))).join(",");
            format!(r#"{{"name":"{}",{figures}}}"#, case.name())
        };
        let cases: Vec<String> = self.cases.iter().map(case).collect();
        let single = |lone: &Lone| {
            let times = lone.all();
            format!(r#""{}":{}"#, lone.name, array(PERCENTILES.iter().map(|p| percentile(&times, *p))))
        };
        let singles: Vec<String> = self.singles.iter().map(single).collect();
        let footprint = |of: &Footprint| {
            let Footprint { name, keys, bytes, usage, .. } = of;
            format!(r#"{{"name":"{name}","keys":{keys},"bytes":{bytes:.1},"memory_usage":{usage:.0}}}"#)
        };
        let memory: Vec<String> = self.memory.iter().map(footprint).collect();
        format!(
            "{{\"server\":\"{}\",\"threads\":{},\"cases\":[\n{}],\n\
             \"p50_p99_p999_us\":{{{}}},\n\"memory\":[\n{}]}}\n",
            self.server,
            self.effort.threads,
            cases.join(",\n"),
            singles.join(","),
            memory.join(",\n")
        )
    }
}

fn array(numbers: impl Iterator<Item = f64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| format!("{number:.3}")).collect();
    format!("[{}]", numbers.join(","))
}

fn head() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown CPU", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    format!(
        "- {model}, {cores} cores, Linux {}; load at the end {load}",
        read("/proc/sys/kernel/osrelease").trim()
    )
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effort { rounds, sample, threads, .. } = self.effort;
        writeln!(
            f,
            "Medians of {rounds} interlaced rounds of {:.2} s each; {:.0} s in all.\n",
            sample.as_secs_f64(),
            self.elapsed.as_secs_f64()
        )?;
        writeln!(f, "{}\n- {}, {}, fat LTO", head(), env!("BENCH_RUSTC"), self.server)?;
        writeln!(
            f,
            "- {CALLERS} callers on {threads} threads, {KEYS} keys, {} an hour each\n",
            cases::AMOUNT
        )?;
        writeln!(
            f,
            "| decisions | k/s | Redis CPU µs each | client CPU µs each | allowed |\n|---|---|---|---|---|"
        )?;
        for case in self.cases {
            let median = |figure| Self::median(case, figure);
            writeln!(
                f,
                "| {} | {:.1} | {:.2} | {:.1} | {:.0} % |",
                case.name(),
                median(RATE) / 1e3,
                median(REDIS),
                median(CLIENT),
                100.0 * median(ALLOWED)
            )?;
        }
        writeln!(f, "\n| a lone caller, µs | p50 | p99 | p99.9 |\n|---|---|---|---|")?;
        for lone in self.singles {
            let times = lone.all();
            let [p50, p99, p999] = PERCENTILES.map(|p| percentile(&times, p));
            writeln!(f, "| {} | {p50:.0} | {p99:.0} | {p999:.0} |", lone.name)?;
        }
        writeln!(
            f,
            "\n| a key | `MEMORY USAGE` | memory in use | of keys | for example |\n|---|---|---|---|---|"
        )?;
        for of in self.memory {
            let Footprint { name, keys, bytes, usage, key } = of;
            writeln!(f, "| {name} | {usage:.0} | {bytes:.0} | {keys} | `{key}` |")?;
        }
        writeln!(f, "\n| target | median | all rounds | | |\n|---|---|---|---|---|")?;
        for (what, ratios, bound, is_least) in self.targets() {
            let [low, median, high] = [0.0, 50.0, 100.0].map(|p| percentile(&ratios, p));
            let is_met = if is_least { median >= bound } else { median <= bound };
            let sign = if is_least { "≥" } else { "≤" };
            let verdict = if is_met { "met" } else { "**miss**" };
            writeln!(f, "| {what} | {median:.2} | {low:.2}–{high:.2} | {sign} {bound} | {verdict} |")?;
        }
        for case in self.cases.iter().filter(|case| Self::median(case, ALLOWED) < 0.99) {
            writeln!(f, "\n**Not to be trusted:** {} refused more than it should.", case.name())?;
        }
        Ok(())
    }
}
