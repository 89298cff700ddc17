//! Rules of the repository, as tests: who may depend on whom, what no file may contain, which documents must
//! agree with the code.

mod documents;
mod layers;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is two folders up")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Paths of all files that git tracks or would track, relative to the root.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    listed.lines().map(str::to_owned).filter(|path| root().join(path).is_file()).collect()
}
