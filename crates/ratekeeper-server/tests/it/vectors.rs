//! Every decision vector through `ratekeeper simulate`, all lines compared.

use std::path::{Path, PathBuf};

use ratekeeper_testkit::redis::{RedisServer, is_left_out};
use serde_json::{Map, Value};

use crate::support::{Folder, run, told};

/// The vectors of the repository; fewer than so many means that they are not where they should be.
const FEWEST: usize = 100;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratekeeper-testkit/vectors")
}

/// One difference: id, step, field, expected, got.
type Differences = Vec<String>;

#[test]
fn every_vector_is_answered_line_by_line_and_by_redis_to_the_same_byte() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the vectors are beside the testkit")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= FEWEST, "{} vectors in {}", files.len(), folder().display());
    let redis = (!is_left_out()).then(RedisServer::start);
    let url = redis.as_ref().map(RedisServer::url);
    let differences: Differences = files.iter().flat_map(|file| run_vector(file, url.as_deref())).collect();
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

fn run_vector(file: &Path, redis: Option<&str>) -> Differences {
    let text = std::fs::read_to_string(file).expect("it can be read");
    let vector: Value =
        serde_json::from_str(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}", file.display()));
    let id = vector["id"].as_str().expect("a vector has an id");
    let steps = vector["steps"].as_array().expect("a vector has steps");
    let place = Folder::new();
    let config = place.file("case.yaml", vector["config"].to_string());
    let trace: String = steps.iter().map(|step| format!("{}\n", without_expect(step))).collect();
    let trace = place.file("case.jsonl", trace);
    let policy = vector["policy"].as_str().expect("a vector has a policy");
    let simulated = |store: &str| {
        let [config, trace] = [&config, &trace].map(|path| path.to_str().expect("UTF-8"));
        let arguments =
            ["simulate", "--config", config, "--policy", policy, "--trace", trace, "--store", store];
        told(&run(&arguments, ""))
    };
    let (stdout, stderr, code) = simulated("memory");
    if let Some(redis) = redis {
        let of_redis = simulated(redis);
        if of_redis != (stdout.clone(), stderr.clone(), code) {
            return vec![format!(
                "{id}: memory says\n{stdout}{stderr}Redis says\n{}{}",
                of_redis.0, of_redis.1
            )];
        }
    }
    let answers: Vec<&str> = stdout.lines().collect();
    if code != 0 || answers.len() != steps.len() {
        return vec![format!(
            "{id}: exit {code}, {} answers to {} steps: {stderr}",
            answers.len(),
            steps.len()
        )];
    }
    let names = limit_names(&vector["config"], policy);
    let mut differences = Vec::new();
    for (i, (step, line)) in steps.iter().zip(answers).enumerate() {
        let mut differ = |field: &str, expected: &str, got: &str| {
            differences.push(format!("{id} step {i} {field}: expected {expected}, got {got}"));
        };
        let answer: Value = serde_json::from_str(line).expect("an answer is JSON");
        let expect = step["expect"].as_object().expect("every step expects something");
        compare(expect, &answer, "", &mut differ);
        obeys(step, &answer, &names, &mut differ);
    }
    differences
}

fn without_expect(step: &Value) -> Value {
    let mut step = step.clone();
    step.as_object_mut().expect("a step is an object").remove("expect");
    step
}

fn limit_names<'v>(config: &'v Value, policy: &str) -> Vec<&'v str> {
    let policies = config["policies"].as_array().expect("a list");
    let policy = policies.iter().find(|known| known["name"] == policy).expect("it is there");
    let limits = policy["limits"].as_array().expect("a list");
    limits.iter().map(|limit| limit["name"].as_str().expect("a name")).collect()
}

fn compare(expect: &Map<String, Value>, answer: &Value, of: &str, differ: &mut impl FnMut(&str, &str, &str)) {
    for (field, expected) in expect {
        match field.as_str() {
            // The exact fraction; the whole number beside it is what is answered.
            field if expected.get("ceil_of").is_some() => {
                let whole = &expect[&format!("{field}_int")];
                if answer[field] != *whole {
                    differ(&format!("{of}{field}"), &whole.to_string(), &answer[field].to_string());
                }
            }
            field if field.ends_with("_int") => {}
            "limits" => {
                for (name, expected) in expected.as_object().expect("limits by name") {
                    let limits = answer["limits"].as_array().map_or(&[][..], Vec::as_slice);
                    let found = limits.iter().find(|limit| limit["name"] == name.as_str());
                    let expected = expected.as_object().expect("fields");
                    compare(expected, found.unwrap_or(&Value::Null), &format!("limits.{name}."), differ);
                }
            }
            field if answer.get(field) != Some(expected) => {
                let got = answer.get(field).map_or_else(|| "nothing".to_owned(), ToString::to_string);
                differ(&format!("{of}{field}"), &expected.to_string(), &got);
            }
            _ => {}
        }
    }
}

/// What every answer obeys, whatever is expected of it.
fn obeys(step: &Value, answer: &Value, names: &[&str], differ: &mut impl FnMut(&str, &str, &str)) {
    let mut must = |holds: bool, field: &str, rule: &str| {
        if !holds {
            differ(field, rule, &answer.to_string());
        }
    };
    let (allowed, reason) = (answer["allowed"] == true, answer.get("reason").and_then(Value::as_str));
    must(answer["t_us"] == step["t_us"], "t_us", "the step's");
    must(answer["allowed"].is_boolean(), "allowed", "true or false");
    for field in ["remaining", "reset_after_us", "delay_us"] {
        must(answer[field].is_u64(), field, "a whole number");
    }
    match (allowed, reason) {
        (true, None) => must(answer["retry_after_us"] == 0, "retry_after_us", "0 when allowed"),
        (false, Some("cost_exceeds_capacity")) => {
            must(answer["retry_after_us"].is_null(), "retry_after_us", "null: never");
        }
        (false, Some("limited")) => {
            let wait = answer["retry_after_us"].as_u64();
            must(wait.is_some_and(|wait| wait >= 1), "retry_after_us", "at least 1 when limited");
        }
        _ => must(false, "reason", "limited or cost_exceeds_capacity when refused, else none"),
    }
    must(allowed || answer["delay_us"] == 0, "delay_us", "0 when refused");
    let looks = step["cost"] == 0 || step["op"] == "reset" || step["op"] == "refund";
    must(!looks || (allowed && answer["delay_us"] == 0), "allowed", "always, without delay, for a look");
    let limits = answer["limits"].as_array().map_or(&[][..], Vec::as_slice);
    let found: Vec<&str> = limits.iter().filter_map(|limit| limit["name"].as_str()).collect();
    must(found == names, "limits", "each limit once, in the order of the file");
    let of_all = |field: &str| limits.iter().filter_map(|limit| limit[field].as_u64()).collect::<Vec<_>>();
    must(of_all("remaining").into_iter().min() == answer["remaining"].as_u64(), "remaining", "the least");
    let resets = of_all("reset_after_us");
    must(resets.into_iter().max() == answer["reset_after_us"].as_u64(), "reset_after_us", "the greatest");
}
