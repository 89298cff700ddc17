//! The server that is measured.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds the server as it is shipped; where its binary is.
pub(crate) fn server() -> Result<PathBuf, String> {
    eprintln!("building the server");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", "ratekeeper-server"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|wrong| format!("cannot run cargo: {wrong}"))?;
    if !output.status.success() {
        return Err("the server does not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    executable.ok_or_else(|| "cargo does not say where it built the server".to_owned())
}
