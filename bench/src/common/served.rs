//! Our server, started for a measurement.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Our server as a process, ended with this.
pub(crate) struct Served {
    child: Child,
    /// Where it listens, as `HOST:PORT`.
    pub(crate) http: String,
    #[allow(dead_code, reason = "not every program asks operators' questions")]
    pub(crate) admin: String,
}

impl Served {
    pub(crate) fn start(
        binary: &Path,
        config: &Path,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(config);
        command.args(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut server = Self { child, http: String::new(), admin: String::new() };
        let said = server.child.stderr.take().ok_or("no output")?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        for line in lines.by_ref() {
            let Some((_, rest)) = line.split_once("http://") else { continue };
            let address = rest.split('/').next().unwrap_or_default().to_owned();
            if server.http.is_empty() {
                server.http = address;
            } else {
                server.admin = address;
                break;
            }
        }
        if server.admin.is_empty() {
            return Err("the server does not say where it listens".into());
        }
        // Reading goes on for as long as the server lives, or its next line would end it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
