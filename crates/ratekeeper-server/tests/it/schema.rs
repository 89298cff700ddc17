//! `schema`: what editors complete and check a file by.

use crate::support::{Folder, run, told};

#[test]
fn it_is_printed_or_written_to_a_file_and_is_json() {
    let (printed, stderr, code) = told(&run(&["schema"], ""));
    assert_eq!((stderr.as_str(), code), ("", 0));
    let schema: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(told(&run(&["schema", "-"], "")).0, printed);
    let folder = Folder::new();
    let file = folder.path().join("ratekeeper.schema.json");
    let written = told(&run(&["schema", file.to_str().expect("UTF-8")], ""));
    assert_eq!(written, (String::new(), String::new(), 0));
    assert_eq!(std::fs::read_to_string(&file).expect("it was written"), printed);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let file = folder.path().join("missing/ratekeeper.schema.json");
    let (stdout, stderr, code) = told(&run(&["schema", file.to_str().expect("UTF-8")], ""));
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(
        stderr.starts_with("error: cannot write ") && stderr.contains("ratekeeper.schema.json"),
        "{stderr}"
    );
}
