use super::Process;

const STATUS: &str = "Name:\tratekeeper\nVmPeak:\t  900 kB\nVmSize:\t  800 kB\nVmRSS:\t  120 kB\n";
/// The name may be chosen by whoever started the program.
const STAT: &str = "4711 (a) R 9 (b) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 3 0 1234 99 98 97";
const LIMITS: &str = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
const SYSTEM: &str = "cpu  1 2 3\nbtime 1700000000\nprocesses 5\n";

#[test]
fn numbers_are_read_in_their_units() {
    let expected = Process {
        resident_bytes: Some(120 * 1_024),
        virtual_bytes: Some(800 * 1_024),
        cpu_ms: Some(1_750),
        open_fds: None,
        max_fds: Some(1_024),
        started_ms: Some(1_700_000_012_340),
    };
    assert_eq!(Process::parse(STATUS, STAT, LIMITS, SYSTEM), expected);
}

#[test]
fn what_cannot_be_read_is_absent() {
    assert_eq!(Process::parse("", "", "", ""), Process::default());
    let unlimited = "Max open files            unlimited            unlimited            files\n";
    let odd = Process::parse("VmRSS:\nVmSize: many kB\n", "1 (x) S 1", unlimited, "btime soon\n");
    assert_eq!(odd, Process::default());
    let huge = format!("VmRSS: {} kB\n", u64::MAX);
    assert_eq!(Process::parse(&huge, STAT, "", ""), Process { cpu_ms: Some(1_750), ..Process::default() });
}

#[test]
#[cfg(target_os = "linux")]
fn linux_says_everything() {
    let process = Process::read();
    assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
    assert!(process.virtual_bytes >= process.resident_bytes, "{process:?}");
    assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
    assert!(process.cpu_ms.is_some() && process.started_ms.is_some(), "{process:?}");
}
