//! What the figures were measured on.

use std::fmt;
use std::fs;

pub(crate) struct Machine {
    model: String,
    cores: usize,
    caches: String,
    memory: String,
    system: String,
    pub(crate) has_tsc: bool,
    load: String,
    /// Ticks at the start: taken by neighbours, and all.
    ticks: Option<(u64, u64)>,
}

fn line_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn caches() -> String {
    let about = |index: usize, what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        read(&path).trim().to_owned()
    };
    (0..8)
        .filter(|index| !about(*index, "size").is_empty() && about(*index, "type") != "Instruction")
        .map(|index| format!("L{} {}", about(index, "level"), about(index, "size")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn ticks() -> Option<(u64, u64)> {
    let text = read("/proc/stat");
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let all = fields.iter().take(8).sum();
    Some((*fields.get(7)?, all))
}

impl Machine {
    pub(crate) fn look() -> Self {
        crate::measure::pin(0);
        let cpus = read("/proc/cpuinfo");
        Self {
            model: line_of(&cpus, "model name").unwrap_or("unknown CPU").to_owned(),
            cores: crate::measure::cores().len(),
            caches: caches(),
            memory: line_of(&read("/proc/meminfo"), "MemTotal").unwrap_or("?").to_owned(),
            system: format!(
                "{} {}",
                read("/proc/sys/kernel/ostype").trim(),
                read("/proc/sys/kernel/osrelease").trim()
            ),
            // quanta says so in its Debug form only.
            has_tsc: format!("{:?}", quanta::Clock::new()).contains("Counter("),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            ticks: ticks(),
        }
    }

    pub(crate) fn warn(&self) {
        if self.load.parse::<f64>().is_ok_and(|load| load > 0.5) {
            eprintln!("warning: the machine is busy (load {}); the figures will swing", self.load);
        }
        if self.cores < 2 {
            eprintln!("warning: two threads on one core");
        }
    }

    /// Per cent of the CPU time that the host gave to others since the start.
    fn stolen(&self) -> Option<f64> {
        let ((before, all_before), (after, all_after)) = (self.ticks?, ticks()?);
        let all = all_after.checked_sub(all_before).filter(|all| *all > 0)?;
        Some(100.0 * (after.saturating_sub(before)) as f64 / all as f64)
    }
}

/// The version of a package in our own lock file.
fn version(package: &str) -> &'static str {
    const LOCK: &str = include_str!("../Cargo.lock");
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    entry
        .and_then(|entry| entry.split("version = \"").nth(1))
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("?")
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "- CPU: {}, {} cores, {}", self.model, self.cores, self.caches)?;
        writeln!(f, "- memory: {}; {}", self.memory, self.system)?;
        writeln!(f, "- compiler: {}, fat LTO", env!("BENCH_RUSTC"))?;
        writeln!(
            f,
            "- versions: ratekeeper {}, governor {}, dashmap {}",
            version("ratekeeper"),
            version("governor"),
            version("dashmap")
        )?;
        let clock = if self.has_tsc {
            "an invariant TSC, read through quanta (ratekeeper and governor)"
        } else {
            "the system's monotonic clock through quanta: no invariant TSC"
        };
        writeln!(f, "- clock: {clock}")?;
        write!(f, "- load at the start: {}", self.load)?;
        match self.stolen() {
            Some(stolen) => writeln!(f, "; CPU time stolen by the host during the run: {stolen:.1} %"),
            None => writeln!(f),
        }
    }
}
