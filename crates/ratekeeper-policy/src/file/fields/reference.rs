//! `docs/configuration.md`, written from the table. `UPDATE=1` writes it anew; read the difference before you keep it.

use super::{Form, Grammar, Need, Place, Row, Rule, Status, TOP, all};
use crate::hints::thousands;

const INTRODUCTION: &str = "\
# The configuration file

Every field: what it may be, what holds without it, and what it means. [reference.md](reference.md) has an example and the rules that take more
words; [errors.md](errors.md) says what each mistake means. This page is written from the table that the program reads files by.

A file is YAML 1.2 of at most 1 MiB: `on`, `off`, `yes` and `no` are text; anchors, aliases, tags and fields that are there twice are errors. Plain
(unquoted) values expand `${VAR}` and `${VAR:-default}`, which wants a line of its own; quoted text does not, and `validate` warns of it.

Editors complete and check a file by its schema. A file names it in its first line: `# yaml-language-server: $schema=ratekeeper.schema.json`.

```console
$ ratekeeper schema ratekeeper.schema.json
```
";

/// The whole page.
fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut places = Vec::new();
    in_order(&TOP, &mut places);
    places.iter().for_each(|place| section(place, &mut page));
    page.push_str("\n## Kinds of text\n\n| kind | what it is |\n|---|---|\n");
    for Grammar { name, doc, .. } in all().1 {
        page.push_str(&format!("| {name} | {} |\n", cell(doc)));
    }
    page
}

/// A place, and those within it behind it.
fn in_order(place: &'static Place, places: &mut Vec<&'static Place>) {
    if places.iter().any(|known| known.path == place.path) {
        return;
    }
    places.push(place);
    for (_, row) in place.rows() {
        let mut within = Vec::new();
        row.form.collect(&mut within, &mut Vec::new());
        within.into_iter().for_each(|place| in_order(place, places));
    }
}

fn section(place: &Place, page: &mut String) {
    page.push_str(&format!("\n## {}\n\n{}\n\n", title(place), place.doc));
    page.push_str(
        "| field | what it may be | without it | what it means | for example |\n|---|---|---|---|---|\n",
    );
    for (name, row) in place.rows() {
        let Row { form, need, doc, example } = row;
        let without = match need {
            Need::Required => required(place, name),
            Need::Default(value) => format!("`{value}`"),
            Need::Optional(words) => (*words).to_owned(),
        };
        let cells = [kind(form), without, (*doc).to_owned(), format!("`{name}: {example}`")];
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        page.push_str(&format!("| `{name}` | {} |\n", cells.join(" | ")));
    }
    let rules: Vec<String> = place.rules.iter().map(sentence).collect();
    if !rules.is_empty() {
        page.push_str(&format!("\n{}\n", rules.join(" ")));
    }
    let later = place.fields.iter().filter(|field| matches!(field.status, Status::Later(_)));
    let later: Vec<String> = later.map(|field| format!("`{}`", field.name)).collect();
    if !later.is_empty() {
        page.push_str(&format!("\nNot in this version: {}.\n", later.join(", ")));
    }
}

fn required(place: &Place, name: &str) -> String {
    let others = place.rules.iter().find_map(|rule| match rule {
        Rule::One(names) if names.contains(&name) => Some(names.iter().filter(|other| **other != name)),
        _ => None,
    });
    let mut words = "required".to_owned();
    others.into_iter().flatten().for_each(|other| words.push_str(&format!(", or `{other}`")));
    words
}

fn title(place: &Place) -> String {
    if place.path == TOP.path { "The file".to_owned() } else { format!("`{}`", place.path) }
}

/// Where a heading can be linked to: letters and digits stay, and so do `-` and `_`.
fn anchor(place: &Place) -> String {
    let kept = title(place).to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.collect::<String>().replace(' ', "-")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// What may be written.
fn kind(form: &Form) -> String {
    let text = |grammar: &Grammar| format!("a [{}](#kinds-of-text)", grammar.name).replace("a [a", "an [a");
    let list =
        |of: &Form, least: usize, most: usize| format!("a list{}, each {}", count(least, most), kind(of));
    match form {
        Form::Number(least, most) if least == most => format!("`{least}`"),
        Form::Number(least, u64::MAX) => format!("a whole number from {least} on"),
        Form::Number(least, most) => {
            format!("a whole number from {} to {}", thousands(*least), thousands(*most))
        }
        Form::Share => "0 to 1, with at most three decimals".to_owned(),
        Form::Words(words) => alternatives(words.iter().map(|word| format!("`{word}`"))),
        Form::Text(grammar) => text(grammar),
        Form::Duration(..) => format!("{}, {}", text(&super::DURATION), form.range().unwrap_or_default()),
        Form::Size(..) => format!("{}, {}", text(&super::SIZE), form.range().unwrap_or_default()),
        Form::List(of, least, most) => list(of, *least, *most),
        Form::Set(of, least, most) => list(of, *least, *most) + ", none twice",
        Form::Mapping(place) => format!("[a mapping](#{})", anchor(place)),
        Form::Named(names, of, least, most) => {
            let many = count(*least, *most);
            format!("a mapping{many} from {} to {}", text(names), kind(of))
        }
        Form::Either(forms) => alternatives(forms.iter().map(kind)),
    }
}

fn count(least: usize, most: usize) -> String {
    match (least, most) {
        (0, usize::MAX) => String::new(),
        (least, usize::MAX) => format!(" of at least {least}"),
        (0, most) => format!(" of up to {}", thousands(most as u64)),
        (least, most) => format!(" of {least} to {}", thousands(most as u64)),
    }
}

fn alternatives(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn sentence(rule: &Rule) -> String {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<String>>();
    match rule {
        Rule::One(names) => format!("Either {} is there, not both.", quoted(names).join(" or ")),
        Rule::NotEmpty => "It is not empty.".to_owned(),
        Rule::Exclude(one, other) => format!("`{one}` and `{other}` exclude each other."),
        Rule::Needs(name, other) => format!("`{name}` needs `{other}`."),
        Rule::NeedsIf(name, word, other) => format!("`{name}: {word}` needs `{other}`."),
        Rule::OnlyFor(name, other, words) => {
            format!("`{name}` is for `{other}: {}`.", words().join("`, `"))
        }
        Rule::OrEach(name, items) => format!("`{name}` may be left out if each of `{items}` has its own."),
    }
}

#[test]
fn the_page_of_all_fields_is_that_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path, page).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(path).expect("docs/configuration.md");
    assert!(committed == page, "docs/configuration.md is not that of the table: write it anew with UPDATE=1");
}

#[test]
fn links_within_the_page_lead_somewhere() {
    let page = page();
    let mut links = 0;
    for link in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        let is_there = link == "kinds-of-text" || all().0.iter().any(|place| anchor(place) == link);
        assert!(is_there, "#{link}");
        links += 1;
    }
    assert!(links > 20, "{links}");
}
