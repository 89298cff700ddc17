//! `completions` and `man`: what is installed beside the binary.

use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use crate::support::{Folder, run, run_command, told};

/// Every command, as the help lists them.
fn commands() -> Vec<String> {
    let (help, _, _) = told(&run(&["--help"], ""));
    let listed = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let names = listed.expect("the help lists the commands").lines();
    let names = names.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names: Vec<String> = names.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
    assert!(names.len() >= 8 && names.contains(&"serve".to_owned()), "{names:?}");
    names
}

#[test]
fn every_shell_is_told_of_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, stderr, code) = told(&run(&["completions", shell], ""));
        assert_eq!((stderr.as_str(), code), ("", 0), "{shell}");
        let words: BTreeSet<&str> = script.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        for command in commands() {
            assert!(words.contains(command.as_str()), "{shell} does not know {command}");
        }
        assert!(words.contains("config") || words.contains("--config"), "{shell} does not know flags");
    }
}

#[test]
fn bash_reads_its_script_and_completes_with_it() {
    let (script, _, _) = told(&run(&["completions", "bash"], ""));
    let mut syntax = Command::new("bash");
    syntax.arg("-n");
    assert_eq!(told(&run_command(syntax, script.as_bytes())), (String::new(), String::new(), 0));
    let asked = "\nCOMP_WORDS=(ratekeeper val); COMP_CWORD=1; _ratekeeper ratekeeper val ratekeeper; echo \"${COMPREPLY[@]}\"\n";
    let mut bash = Command::new("bash");
    bash.arg("--norc");
    let (stdout, stderr, _) = told(&run_command(bash, (script + asked).as_bytes()));
    assert_eq!(stdout, "validate\n", "{stderr}");
}

#[test]
fn a_shell_that_is_not_known_is_told_which_are() {
    let (stdout, stderr, code) = told(&run(&["completions", "tcsh"], ""));
    assert_eq!((stdout.as_str(), code), ("", 2));
    assert!(stderr.contains("bash") && stderr.contains("powershell"), "{stderr}");
}

#[test]
fn every_command_has_a_page_and_man_can_set_it() {
    let folder = Folder::new();
    let pages = folder.path().join("man1");
    let (stdout, stderr, code) = told(&run(&["man", pages.to_str().expect("UTF-8")], ""));
    assert_eq!((stdout.as_str(), code), ("", 0), "{stderr}");
    let mut expected: BTreeSet<String> = commands()
        .into_iter()
        .filter(|command| command != "help")
        .map(|command| format!("ratekeeper-{command}.1"))
        .collect();
    expected.insert("ratekeeper.1".to_owned());
    let there: BTreeSet<String> = std::fs::read_dir(&pages)
        .expect("the folder was made")
        .map(|page| page.expect("a page").file_name().into_string().expect("UTF-8"))
        .collect();
    assert_eq!(there, expected);
    assert!(stderr.starts_with(&format!("{} pages in ", expected.len())), "{stderr}");
    for page in &there {
        let text = std::fs::read_to_string(pages.join(page)).expect("UTF-8");
        let command = page.trim_end_matches(".1");
        let typed = command.replacen('-', " ", 1);
        assert!(text.contains(".SH SYNOPSIS") && text.contains(&format!(".TH {command} 1")), "{text}");
        assert!(text.contains(&format!("\\fB{typed}\\fR")), "{page} does not say how it is typed\n{text}");
        sets(page, &text);
    }
}

/// Sets a page as `man` does, with all warnings. Without groff there is nobody to complain.
fn sets(name: &str, text: &str) {
    let mut groff = Command::new("groff");
    groff.args(["-ww", "-z", "-mandoc", "-K", "utf8"]);
    if let Err(wrong) = Command::new("groff").arg("--version").output()
        && wrong.kind() == io::ErrorKind::NotFound
    {
        return;
    }
    let (_, stderr, code) = told(&run_command(groff, text.as_bytes()));
    assert_eq!((stderr.as_str(), code), ("", 0), "{name}");
}

#[test]
fn the_first_page_is_printed_without_a_folder() {
    let (page, stderr, code) = told(&run(&["man"], ""));
    assert_eq!((stderr.as_str(), code), ("", 0));
    assert!(page.contains(".TH ratekeeper 1"), "{page}");
    for command in commands().iter().filter(|command| *command != "help") {
        let roff = command.replace('-', "\\-");
        assert!(page.contains(&format!("ratekeeper\\-{roff}(1)")), "{command}\n{page}");
    }
    assert_eq!(told(&run(&["man", "-"], "")).0, page);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    let file = folder.file("taken", "");
    let (stdout, stderr, code) = told(&run(&["man", file.to_str().expect("UTF-8")], ""));
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(stderr.starts_with("error: cannot write ") && stderr.contains("taken"), "{stderr}");
}
