//! The documents agree with what is there.

use super::{files, read, root};

/// Links of a Markdown text that point into the repository.
fn local_links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.starts_with("http") && !link.starts_with('#') && !link.starts_with("mailto:"))
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in files().into_iter().filter(|path| path.ends_with(".md")) {
        let text = read(&path);
        let folder = root().join(&path).parent().map(std::path::Path::to_path_buf).unwrap_or_default();
        for link in local_links(&text) {
            let target = folder.join(link.split('#').next().unwrap_or_default());
            assert!(target.exists(), "{path} links to {link}");
        }
    }
}

#[test]
fn the_architecture_names_every_crate_and_no_other() {
    let text = read("ARCHITECTURE.md");
    for entry in std::fs::read_dir(root().join("crates")).expect("there are crates") {
        let name = entry.expect("a folder").file_name().into_string().expect("UTF-8");
        assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE does not name `{name}`");
    }
}

#[test]
fn files_that_the_architecture_names_exist() {
    let text = read("ARCHITECTURE.md");
    let mut named = 0;
    for word in text.split('`').skip(1).step_by(2) {
        if word.starts_with("crates/") {
            assert!(root().join(word).exists(), "ARCHITECTURE names {word}");
            named += 1;
        }
    }
    assert!(named >= 5, "the tour names files");
}

#[test]
fn the_readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 190, "README.md has {lines} lines");
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 300, "ARCHITECTURE.md has {lines} lines");
}

#[test]
fn pages_of_examples_fit_on_a_screen() {
    for path in files().into_iter().filter(|path| path.starts_with("examples/") && path.ends_with(".md")) {
        let lines = read(&path).lines().count();
        assert!(lines <= 40, "{path} has {lines} lines");
    }
}

#[test]
fn every_example_is_named_by_a_page() {
    let pages = read("docs/clients.md");
    for path in files() {
        let Some((folder, _)) = path.strip_prefix("examples/").and_then(|path| path.split_once('/')) else {
            continue;
        };
        assert!(
            pages.contains(&format!("(../examples/{folder}/README.md)")),
            "nobody finds examples/{folder}"
        );
    }
}

#[test]
fn every_algorithm_is_documented() {
    for name in [
        "fixed-window",
        "sliding-window-log",
        "sliding-window-counter",
        "token-bucket",
        "leaky-bucket",
        "gcra",
    ] {
        for document in ["README.md", "docs/algorithms.md"] {
            assert!(read(document).contains(name), "{document} does not name {name}");
        }
    }
}

#[test]
fn messages_that_operators_look_up_are_those_of_the_program() {
    let page = read("docs/operating.md");
    let (_, table) = page.split_once("| message |").expect("the page has a table of messages");
    let messages: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(messages.len() >= 10, "{messages:?}");
    let is_ours =
        |path: &String| path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let sources: String = files().into_iter().filter(is_ours).map(|path| read(&path)).collect();
    for message in messages {
        for piece in message.split('…') {
            assert!(sources.contains(piece), "nothing says `{message}`");
        }
    }
}

#[test]
fn every_code_of_a_mistake_has_its_paragraph_and_no_other_has() {
    let source = read("crates/ratekeeper-policy/src/fault.rs");
    let mut codes: Vec<&str> =
        source.split(": &str = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(codes.len() >= 60, "{codes:?}");
    // What no reader of a file says: that there was nothing to read.
    let unread = "unreadable";
    assert!(read("crates/ratekeeper-server/src/report.rs").contains(&format!("\"{unread}\"")));
    codes.push(unread);
    let page = read("docs/errors.md");
    let mut paragraphs = Vec::new();
    for paragraph in page.split("\n### `").skip(1) {
        let (code, rest) = paragraph.split_once("`\n\n").expect("a heading and a paragraph");
        let text = rest.split("\n\n").next().unwrap_or_default().trim();
        assert!(text.len() > 40 && text.ends_with('.'), "{code}: {text}");
        paragraphs.push(code);
    }
    codes.sort_unstable();
    paragraphs.sort_unstable();
    assert_eq!(paragraphs, codes);
}
