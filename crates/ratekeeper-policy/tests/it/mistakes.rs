//! Each file of `mistakes.txt` and what is said about it, to the letter. `UPDATE=1` rewrites the second half
//! of each case; read the difference before you keep it.

use std::fmt::Write as _;

use crate::parse;

const TABLE: &str = include_str!("mistakes.txt");

/// Title, file and message of each case.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.split("#### ").skip(1).map(|case| {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (file, message) = rest.split_once(">>>>\n").expect("a file and a message");
        (title, file, message.trim_end())
    })
}

#[test]
fn every_mistake_has_its_place_and_its_remedy() {
    if std::env::var_os("UPDATE").is_some() {
        let mut table = String::new();
        for (title, file, _) in cases() {
            let message = parse(file).expect_err(title).render();
            write!(table, "#### {title}\n{file}>>>>\n{message}\n\n").unwrap();
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mistakes.txt");
        return std::fs::write(path, table).unwrap();
    }
    let mut number = 0;
    for (title, file, message) in cases() {
        let errors = parse(file).expect_err(title);
        assert_eq!(errors.render(), message, "{title}");
        assert_eq!(errors.to_string(), message, "{title}");
        number += 1;
    }
    assert!(number >= 40, "{number}");
}

#[test]
fn the_fields_of_a_mistake_say_what_its_text_says() {
    for (title, file, message) in cases() {
        let errors = parse(file).expect_err(title);
        assert_eq!(errors.file, "ratekeeper.yaml");
        let mut last = (0, 0);
        for item in &errors.items {
            let place = (item.line, item.column);
            assert!(last <= place, "{title}: sorted by place");
            last = place;
            assert!(message.contains(&format!("{}: {}\n", item.severity, item.message)), "{title}");
            assert!(
                message.contains(&format!("--> ratekeeper.yaml:{}:{}\n", item.line, item.column)),
                "{title}"
            );
            if let Some(hint) = &item.hint {
                assert!(message.contains(&format!("^ {hint}\n")), "{title}");
            }
            let span = &file[item.span.clone()];
            assert!(!span.contains('\n'), "{title}: a span stays on its line");
            let line = file.lines().nth(item.line - 1).unwrap();
            let before: String = line.chars().take(item.column - 1).collect();
            assert!(line[before.len()..].starts_with(span), "{title}: {span}");
            assert!(
                item.code.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'8'),
                "{}",
                item.code
            );
        }
    }
}

#[test]
fn messages_begin_in_lower_case_and_do_not_end_like_sentences() {
    for (title, file, _) in cases() {
        for item in parse(file).expect_err(title).items {
            for text in [Some(&item.message), item.hint.as_ref()].into_iter().flatten() {
                let first = text.chars().next().unwrap();
                assert!(!first.is_uppercase() || text.starts_with("YAML"), "{text}");
                assert!(!text.ends_with('.'), "{text}");
                assert!(!text.contains("invalid") && !text.contains("illegal"), "{text}");
            }
        }
    }
}
