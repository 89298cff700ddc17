//! An edge between crates goes to a lower rank or it does not exist.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::root;

/// A crate may depend on crates of a lower rank. A new crate needs a row, a new rank a reason in ARCHITECTURE.
const RANKS: [(&str, u32); 8] = [
    ("ratekeeper-core", 0),
    ("ratekeeper-client", 1),
    ("ratekeeper-policy", 1),
    ("ratekeeper-testkit", 1),
    ("ratekeeper", 2),
    ("ratekeeper-sim", 2),
    ("ratekeeper-tower", 3),
    ("ratekeeper-server", 4),
];

struct Edge {
    from: String,
    to: String,
    is_dev: bool,
}

/// All dependencies of the crates of the workspace, also on crates from elsewhere.
fn edges() -> Vec<Edge> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo describes the workspace");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("cargo writes JSON");
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array().expect("a list of packages") {
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            edges.push(Edge {
                from: package["name"].as_str().unwrap_or_default().to_owned(),
                to: dependency["name"].as_str().unwrap_or_default().to_owned(),
                is_dev: dependency["kind"].as_str() == Some("dev"),
            });
        }
    }
    assert!(edges.len() > 10, "cargo metadata listed the dependencies");
    edges
}

#[test]
fn dependencies_go_to_lower_ranks_only() {
    let ranks = BTreeMap::from(RANKS);
    for Edge { from, to, is_dev } in edges() {
        let rank = ranks.get(from.as_str()).unwrap_or_else(|| panic!("give {from} a rank"));
        let Some(other) = ranks.get(to.as_str()) else { continue };
        assert!(is_dev || other < rank, "{from} depends on {to}: say in ARCHITECTURE what that saves us");
    }
}

#[test]
fn the_core_depends_on_nothing() {
    let of_core: Vec<String> =
        edges().into_iter().filter(|e| e.from == "ratekeeper-core" && !e.is_dev).map(|e| e.to).collect();
    assert!(of_core.is_empty(), "{of_core:?}");
}

#[test]
fn only_tests_reach_the_testkit() {
    let product: Vec<String> =
        edges().into_iter().filter(|e| e.to == "ratekeeper-testkit" && !e.is_dev).map(|e| e.from).collect();
    assert!(product.is_empty(), "{product:?}");
}

#[test]
fn every_dependency_has_its_line_in_the_architecture() {
    let architecture = super::read("ARCHITECTURE.md");
    for edge in edges().iter().filter(|edge| !edge.to.starts_with("ratekeeper")) {
        let named = format!("`{}`", edge.to);
        assert!(architecture.contains(&named), "{} depends on {named}: say in ARCHITECTURE why", edge.from);
    }
}
