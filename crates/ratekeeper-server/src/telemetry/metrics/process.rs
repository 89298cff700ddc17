//! What Linux says of this process. Elsewhere there is nothing to read, and nothing is said.

use std::fs;

/// Ticks of a second in `/proc`: the kernel shows this many whatever it counts by, on all but Alpha.
const TICKS: u64 = 100;
const KIB: u64 = 1_024;

/// Each as far as it can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) cpu_ms: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    pub(super) started_ms: Option<u64>,
}

impl Process {
    /// The numbers of now.
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut process = Self::parse(
            &text("/proc/self/status"),
            &text("/proc/self/stat"),
            &text("/proc/self/limits"),
            &text("/proc/stat"),
        );
        // Reading the folder takes a descriptor itself.
        process.open_fds = fs::read_dir("/proc/self/fd").ok().and_then(|fds| u64::try_from(fds.count()).ok());
        process.open_fds = process.open_fds.map(|fds| fds.saturating_sub(1));
        process
    }

    /// Reads `/proc/self/status`, `/proc/self/stat`, `/proc/self/limits` and `/proc/stat`.
    pub(super) fn parse(status: &str, stat: &str, limits: &str, system: &str) -> Self {
        let bytes = |name: &str| {
            let kib = after(status, name)?.split_whitespace().next()?.parse::<u64>().ok()?;
            kib.checked_mul(KIB)
        };
        // The second field is the program's name in parentheses, which may have any character in it.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect());
        // The first of these is field 3.
        let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
        let ms = |ticks: u64| ticks.checked_mul(1_000 / TICKS);
        let booted_ms = || after(system, "btime ")?.trim().parse::<u64>().ok()?.checked_mul(1_000);
        Self {
            resident_bytes: bytes("VmRSS:"),
            virtual_bytes: bytes("VmSize:"),
            cpu_ms: ticks(14).zip(ticks(15)).and_then(|(user, system)| ms(user.checked_add(system)?)),
            open_fds: None,
            // The first of two: the one that is in force.
            max_fds: after(limits, "Max open files")
                .and_then(|rest| rest.split_whitespace().next()?.parse().ok()),
            started_ms: ticks(22).and_then(|after_boot| booted_ms()?.checked_add(ms(after_boot)?)),
        }
    }
}

/// The rest of the line that begins with `name`.
fn after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests;
