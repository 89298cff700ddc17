//! Servers as processes: pinned, timed by the system's own accounts, and ended with this program.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bare;
use crate::load::Answer;
use crate::rows;

/// Where servers run, and where `wrk` does.
pub(crate) const SERVER_CORE: &str = "0";
pub(crate) const CLIENT_CORE: &str = "1";

/// A folder for scripts and the configuration, removed in the end.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("ratekeeper-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|wrong| format!("{}: {wrong}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that is listening.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Our server, with the policies of the rows.
    pub(crate) fn ours(binary: &Path, files: &Files, max_keys: u64) -> Result<Self, String> {
        let config = files.write("ratekeeper.yaml", &rows::config(max_keys))?;
        let mut command = pinned(SERVER_CORE, binary.as_os_str());
        command.arg("serve").arg("--config").arg(config);
        command.args(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        Self::start(command, "")
    }

    /// Bare hyper that answers what ours has answered.
    pub(crate) fn bare(answer: &Answer) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|wrong| format!("where is this program? {wrong}"))?;
        let mut command = pinned(SERVER_CORE, own.as_os_str());
        command.arg(bare::SUBCOMMAND);
        let fields: String = answer
            .fields
            .iter()
            .filter(|field| !is_hypers(field))
            .map(|field| format!("{field}\n"))
            .collect();
        Self::start(command, &format!("{fields}\n{}", answer.body))
    }

    fn start(mut command: Command, input: &str) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|wrong| format!("cannot start {command:?}: {wrong}"))?;
        let mut server = Self { child, port: 0 };
        let wrote = server.child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        wrote.transpose().map_err(|wrong| format!("{command:?} takes no input: {wrong}"))?;
        let output = server.child.stderr.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut said = String::new();
        let port = lines.find_map(|line| {
            said.push_str(&line);
            said.push('\n');
            let (_, rest) = line.split_once("http://127.0.0.1:")?;
            rest.split_once('/').and_then(|(port, _)| port.parse().ok())
        });
        server.port = port.ok_or_else(|| format!("{command:?} does not say where it listens:\n{said}"))?;
        // Reading goes on for as long as the server lives, or its next line would end it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// Nanoseconds of CPU time of all its threads.
    pub(crate) fn cpu_ns(&self) -> u64 {
        // taskset has become the server: the child is what was asked for.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let times = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        times.sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fields that hyper writes by itself.
fn is_hypers(field: &str) -> bool {
    ["content-length:", "date:", "connection:"]
        .iter()
        .any(|name| field.to_ascii_lowercase().starts_with(name))
}

/// A command on one core.
pub(crate) fn pinned(core: &str, program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}
