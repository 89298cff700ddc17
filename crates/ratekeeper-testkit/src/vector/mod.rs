//! Decision vectors: one policy, a list of timed steps, and what each step must answer.
//!
//! The files are in `vectors/`; `config` is a whole configuration and each step without `expect` is a line
//! of a trace, so that a vector can be run on the engine, on a store or on the binary. A test drives its
//! subject, makes an [`Outcome`] of each answer and asks [`Vector::mismatches`].

mod calendar;
mod expect;
mod limit;
mod replay;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

pub use calendar::{Period, period_starts};
pub use expect::{Expect, LimitExpect, LimitOutcome, Outcome};
pub use limit::{LimitKey, VectorLimit};
pub use replay::{replay, replay_on};

/// One vector.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Its name, also that of its file.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The kind of mistake it finds.
    pub kind: String,
    /// Public reports of that mistake, `owner/repository#number`.
    #[serde(default)]
    pub source: Vec<String>,
    /// A remark.
    pub note: Option<String>,
    /// A whole configuration.
    pub config: serde_json::Value,
    /// The policy that decides.
    pub policy: String,
    /// What happens, and what must come of it.
    pub steps: Vec<VectorStep>,
}

/// One step of a vector.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorStep {
    /// When; the clock may step back.
    pub t_us: u64,
    /// The key of the policy.
    pub key: String,
    /// Units; 1 if absent.
    pub cost: Option<u64>,
    /// What is done.
    #[serde(default)]
    pub op: VectorOp,
    /// A refund of the step of this number; a refund without it is a plain credit.
    pub of: Option<usize>,
    /// Keys of limits that have their own, by the name of the limit.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// What must be answered.
    pub expect: Expect,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VectorOp {
    /// Takes units or is refused.
    #[default]
    Acquire,
    /// Asks what an acquire would be told.
    Peek,
    /// Forgets the policy's own key and those named in `keys`.
    Reset,
    /// Gives units back.
    Refund,
}

impl VectorStep {
    /// Units, 1 unless said otherwise.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.cost.unwrap_or(1)
    }

    /// The line of a trace: the step without what is expected.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = serde_json::Map::new();
        line.insert("t_us".to_owned(), self.t_us.into());
        line.insert("key".to_owned(), self.key.clone().into());
        if let Some(cost) = self.cost {
            line.insert("cost".to_owned(), cost.into());
        }
        let op = match self.op {
            VectorOp::Acquire => None,
            VectorOp::Peek => Some("peek"),
            VectorOp::Reset => Some("reset"),
            VectorOp::Refund => Some("refund"),
        };
        if let Some(op) = op {
            line.insert("op".to_owned(), op.into());
        }
        if let Some(of) = self.of {
            line.insert("of".to_owned(), of.into());
        }
        if !self.keys.is_empty() {
            let keys = self.keys.iter().map(|(name, key)| (name.clone(), key.clone().into()));
            line.insert("keys".to_owned(), serde_json::Value::Object(keys.collect()));
        }
        serde_json::Value::Object(line).to_string()
    }
}

impl Vector {
    /// The limits of the policy that decides, in the order of the file.
    ///
    /// # Panics
    /// If the configuration is not one.
    #[must_use]
    pub fn limits(&self) -> Vec<VectorLimit> {
        let policies = self.config["policies"].as_array().expect("a list of policies");
        let policy = policies.iter().find(|policy| policy["name"] == self.policy.as_str());
        let limits = policy.expect("the policy that the vector names")["limits"].clone();
        serde_json::from_value(limits).unwrap_or_else(|error| panic!("{}: {error}", self.id))
    }

    /// The earliest and the latest instant of its steps.
    #[must_use]
    pub fn instants_us(&self) -> (u64, u64) {
        let instants = || self.steps.iter().map(|step| step.t_us);
        (instants().min().unwrap_or(0), instants().max().unwrap_or(0))
    }

    /// What is wrong with an answer to the step of this number; empty if it is as expected.
    ///
    /// Besides `expect` every answer obeys rules that hold for all: whole numbers, no wait for those who may
    /// go, the headline made of the limits.
    #[must_use]
    pub fn mismatches(&self, step: usize, outcome: &Outcome) -> Vec<String> {
        let names: Vec<String> = self.limits().into_iter().map(|limit| limit.name).collect();
        let mut wrong = self.steps[step].expect.mismatches(outcome);
        wrong.extend(expect::broken_rules(&self.steps[step], &names, outcome));
        wrong.into_iter().map(|what| format!("{} step {step}: {what}", self.id)).collect()
    }
}

/// All vectors, by name.
///
/// # Panics
/// If a file cannot be read or is not a vector: the files are part of this crate.
#[must_use]
pub fn vectors() -> Vec<Vector> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let entries = fs::read_dir(&folder).expect("the folder of the vectors");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file of the folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a readable file");
            let vector: Vector =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.file_stem().and_then(|name| name.to_str());
            assert_eq!(name, Some(vector.id.as_str()), "a vector is named as its file");
            vector
        })
        .collect()
}
