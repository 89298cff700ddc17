//! The tables, as markdown.

use std::fmt;
use std::fs;

use crate::apps::App;
use crate::load::{Flood, Refusal, Sample};
use crate::median::median;
use crate::{Measured, ROWS};

pub(crate) struct Table<'t> {
    pub(crate) measured: &'t [Measured],
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
}

pub(crate) struct Rest<'t> {
    pub(crate) floods: &'t [(App, Flood)],
    pub(crate) refusals: &'t [(App, Refusal)],
}

impl Table<'_> {
    fn of(&self, app: App, row: usize) -> &[Sample] {
        self.measured.iter().find(|measured| measured.app == app).map_or(&[], |found| &found.samples[row])
    }

    /// Round by round, ours beside the peer's: both were taken within moments.
    fn ratio(&self, row: usize, of: impl Fn(&Sample) -> f64) -> f64 {
        let pairs = self.of(App::Ours, row).iter().zip(self.of(App::Governor, row));
        median(pairs.map(|(ours, theirs)| of(ours) / of(theirs)))
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown CPU", |(_, model)| model);
        writeln!(
            f,
            "Medians of {} interlaced rounds of {} s each; {model}, one core",
            self.rounds, self.seconds
        )?;
        writeln!(f, "for the application, one for wrk; 50 connections, 20,000 keys, header fields on.\n")?;
        writeln!(
            f,
            "| | k/s: bare | ours | tower_governor | CPU µs each: bare | ours | tower_governor | rate ÷ its | CPU ÷ its |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for (row, told) in ROWS.iter().enumerate() {
            write!(f, "| {} ", told.name)?;
            for app in App::ALL {
                let rate = median(self.of(app, row).iter().map(|sample| sample.requests_per_second / 1e3));
                write!(f, "| {rate:.1} ")?;
            }
            for app in App::ALL {
                write!(f, "| {:.2} ", median(self.of(app, row).iter().map(|sample| sample.cpu_us)))?;
            }
            let rate = self.ratio(row, |sample| sample.requests_per_second);
            writeln!(f, "| {rate:.2} | {:.2} |", self.ratio(row, |sample| sample.cpu_us))?;
        }
        Ok(())
    }
}

impl fmt::Display for Rest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n| new keys only | keys | MiB before | MiB after |\n|---|---|---|---|")?;
        for (app, flood) in self.floods {
            let Flood { keys, before_mib, after_mib } = flood;
            writeln!(f, "| {} | {keys} | {before_mib:.0} | {after_mib:.0} |", app.name())?;
        }
        writeln!(f, "\n| refused, 250 ms to go | status | Retry-After |\n|---|---|---|")?;
        for (app, refusal) in self.refusals.iter().filter(|(app, _)| *app != App::Bare) {
            let retry_after = refusal.retry_after.as_deref().unwrap_or("none");
            writeln!(f, "| {} | {} | {retry_after} |", app.name(), refusal.status)?;
        }
        Ok(())
    }
}
