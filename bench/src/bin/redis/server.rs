//! A `redis-server` of our own, ended with this program.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failed;

/// The variable that names another server, as for the tests.
const BINARY: &str = "RATEKEEPER_TEST_REDIS_SERVER";
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    /// Asked only between samples.
    connection: redis::Connection,
    pub(crate) port: u16,
    pub(crate) version: String,
}

impl Server {
    pub(crate) fn start() -> Result<Self, Failed> {
        let binary = std::env::var_os(BINARY).unwrap_or_else(|| "redis-server".into());
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = std::env::temp_dir().join(format!("ratekeeper-bench-redis-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(&binary);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]);
        command.arg(&folder).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let mut child =
            command.spawn().map_err(|wrong| format!("{} cannot be started: {wrong}", binary.display()))?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let begun = Instant::now();
        let mut connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(wrong) if begun.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    return Err(format!("redis-server does not answer: {wrong}").into());
                }
                // It is starting.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
        let field = |name: &str| field(&info, name).map(str::to_owned);
        let version = match field("valkey_version") {
            Some(version) => format!("valkey {version}"),
            None => format!("redis {}", field("redis_version").unwrap_or_default()),
        };
        Ok(Self { child, folder, connection, port, version })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Processor time that it has used, in microseconds.
    pub(crate) fn used_cpu_us(&mut self) -> Result<f64, Failed> {
        let info: String = redis::cmd("INFO").arg("cpu").query(&mut self.connection)?;
        let seconds = |name| field(&info, name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        Ok(1e6 * (seconds("used_cpu_user") + seconds("used_cpu_sys")))
    }

    pub(crate) fn used_memory(&mut self) -> Result<f64, Failed> {
        let info: String = redis::cmd("INFO").arg("memory").query(&mut self.connection)?;
        Ok(field(&info, "used_memory").and_then(|value| value.parse().ok()).unwrap_or(0.0))
    }

    /// `MEMORY USAGE` of some key, and the key.
    pub(crate) fn usage_of_any(&mut self) -> Result<(f64, String), Failed> {
        let key: String = redis::cmd("RANDOMKEY").query(&mut self.connection)?;
        let usage = redis::cmd("MEMORY").arg("USAGE").arg(&key).query(&mut self.connection)?;
        Ok((usage, key))
    }

    pub(crate) fn count(&mut self) -> Result<u64, Failed> {
        Ok(redis::cmd("DBSIZE").query(&mut self.connection)?)
    }

    /// Empties it: it is ours alone.
    pub(crate) fn empty(&mut self) -> Result<(), Failed> {
        Ok(redis::cmd("FLUSHALL").arg("SYNC").query(&mut self.connection)?)
    }
}

fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
