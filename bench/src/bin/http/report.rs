//! The table, as markdown.

use std::fmt;
use std::fs;

use crate::load::Sample;
use crate::median::median;
use crate::rows::Measured;

/// The least share of bare hyper's requests per second.
const RATE_TARGET: f64 = 0.9;
/// The largest share of its CPU time per request.
const CPU_TARGET: f64 = 1.1;
/// A client that is so busy is the bound of the rate.
const CLIENT_IS_BOUND: f64 = 0.95;

pub(crate) struct Table<'t> {
    pub(crate) rows: &'t [Measured],
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) max_keys: u64,
}

impl Measured {
    /// Round by round, ours beside the bare one's: both were taken within moments.
    fn ratios(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.ours_at.iter().zip(&self.bare_at).map(|(ours, bare)| of(ours) / of(bare)).collect()
    }
}

fn model() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpus.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": ")).map_or("unknown CPU", |(_, model)| model).to_owned()
}

/// The middle, and from where to where.
fn spread(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2}–{most:.2})", median(ratios.iter().copied()))
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Medians of {} interlaced rounds of {} s each.\n", self.rounds, self.seconds)?;
        let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        writeln!(f, "- {}, Linux {}; one core for the server, one for wrk", model(), system.trim())?;
        writeln!(f, "- {}, 50 connections, HTTP/1.1", env!("BENCH_RUSTC"))?;
        writeln!(f, "- 20,000 keys, in a table for {}\n", self.max_keys)?;
        writeln!(
            f,
            "| decisions | k/s: ours | bare | CPU µs each: ours | bare | rate ÷ bare | CPU ÷ bare |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for measured in self.rows {
            let decisions = measured.row.decisions();
            let rate = |samples: &[Sample]| {
                median(samples.iter().map(|sample| sample.requests_per_second * decisions / 1e3))
            };
            let cpu = |samples: &[Sample]| median(samples.iter().map(|sample| sample.cpu_us / decisions));
            let (ours, bare) = (&measured.ours_at[..], &measured.bare_at[..]);
            write!(f, "| {} | {:.0} | {:.0} ", measured.row.name, rate(ours), rate(bare))?;
            write!(f, "| {:.2} | {:.2} ", cpu(ours), cpu(bare))?;
            let rates = spread(&measured.ratios(|sample| sample.requests_per_second));
            let cpus = spread(&measured.ratios(|sample| sample.cpu_us));
            writeln!(f, "| {rates} | {cpus} |")?;
        }
        writeln!(f, "\n| target | value | |\n|---|---|---|")?;
        for measured in self.rows.iter().filter(|measured| measured.row.is_bound) {
            let name = measured.row.name;
            let rate = median(measured.ratios(|sample| sample.requests_per_second));
            let cpu = median(measured.ratios(|sample| sample.cpu_us));
            let said = |met: bool| if met { "met" } else { "missed" };
            writeln!(f, "| {name}: rate ≥ {RATE_TARGET} | {rate:.2} | {} |", said(rate >= RATE_TARGET))?;
            writeln!(f, "| {name}: CPU ≤ {CPU_TARGET} | {cpu:.2} | {} |", said(cpu <= CPU_TARGET))?;
        }
        for measured in self.rows {
            let busy = |samples: &[Sample]| median(samples.iter().map(|sample| sample.client_busy));
            let (ours, bare) = (busy(&measured.ours_at), busy(&measured.bare_at));
            if ours.max(bare) >= CLIENT_IS_BOUND {
                let name = measured.row.name;
                writeln!(
                    f,
                    "\n{name}: the client was the bound (busy for {ours:.2} and {bare:.2}); judge by CPU."
                )?;
            }
        }
        Ok(())
    }
}
