//! Every block of the README and of the pages in `docs` and `examples` is run as it stands there.
//!
//! - `console`: lines that begin with `$ ` are commands (with their here-documents and continuations), the lines
//!   below are what they print, `…` standing for anything, a line of `…` alone for any lines. All commands of a
//!   page share one folder and one shell environment; `ratekeeper` is the binary under test. A command that
//!   serves is started in the background on a free port, and `127.0.0.1:8080` means that port from then on
//!   (`127.0.0.1:9090` the admin listener's); `ratekeeper check` asks it.
//!   `./test`, `.ci/run`, `cargo` and `docker` are not run.
//! - `yaml`: a whole configuration is validated and becomes `ratekeeper.yaml` of that folder.
//! - `sh`: not run (it installs or builds), but its syntax is checked.
//! - a block of any language that begins with a comment of one word with a dot in it, as `# limited.py` or
//!   `// limited.mjs`, becomes the file of that name, for the commands below it. `python3` and `node` have to be
//!   there (`./test` sees to it); commands of `go` are left out where it is not, and the test says so.
//! - `rust`: run as documentation tests elsewhere.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, RATEKEEPER, Server, run, run_command, told};

/// The address that pages write, in place of the free port of a test.
const WRITTEN_ADDRESS: &str = "127.0.0.1:8080";
const WRITTEN_ADMIN: &str = "127.0.0.1:9090";

struct Block<'p> {
    language: &'p str,
    /// Of its first line within the page, from 1.
    line: usize,
    lines: Vec<&'p str>,
}

struct Exchange {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (i, line) in page.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block { language: language.trim(), line: i + 2, lines: Vec::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// The file that a block shows, if its first line is a comment that names one.
fn file_name<'p>(block: &Block<'p>) -> Option<&'p str> {
    let first = block.lines.first()?;
    let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    (is_plain && name.contains('.')).then_some(name)
}

/// The commands of a console block and what they print.
fn exchanges(block: &Block<'_>) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut lines = block.lines.iter().enumerate();
    while let Some((i, line)) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            let last = exchanges
                .last_mut()
                .unwrap_or_else(|| panic!("line {}: output of no command", block.line + i));
            last.expected.push((*line).to_owned());
            continue;
        };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let (_, more) = lines.next().expect("a continued command goes on");
            command = format!("{command}\n{more}");
        }
        if let Some(end) = here_document(&command) {
            loop {
                let (_, more) = lines.next().expect("a here-document ends");
                command = format!("{command}\n{more}");
                if *more == end {
                    break;
                }
            }
        }
        exchanges.push(Exchange { line: block.line + i, command, expected: Vec::new() });
    }
    exchanges
}

/// The word that ends the here-document of a command.
fn here_document(command: &str) -> Option<String> {
    let (_, rest) = command.split_once("<<")?;
    let word: String =
        rest.trim_start_matches(['-', '\'', '"']).chars().take_while(char::is_ascii_alphanumeric).collect();
    (!word.is_empty()).then_some(word)
}

/// A page being run.
pub(crate) struct Page {
    folder: Folder,
    server: Option<Server>,
    /// Files that the page shows, as they stand there.
    shown: Vec<(String, String)>,
}

impl Page {
    fn run(text: &str) -> Result<usize, String> {
        Self::run_in(Folder::new(), text)
    }

    /// Runs a page in a folder in which there may be files already; how many commands it has.
    pub(crate) fn run_in(folder: Folder, text: &str) -> Result<usize, String> {
        let mut page = Self { folder, server: None, shown: Vec::new() };
        let mut commands = 0;
        for block in blocks(text) {
            if let Some(name) = file_name(&block) {
                page.shown.push((name.to_owned(), block.lines.join("\n") + "\n"));
            }
            match block.language.split([',', ' ']).next().unwrap_or_default() {
                "console" => {
                    for exchange in exchanges(&block) {
                        page.exchange(&exchange)?;
                        commands += 1;
                    }
                }
                "yaml" => page.configuration(&block)?,
                "sh" | "bash" => page.syntax(&block)?,
                _ => {}
            }
        }
        Ok(commands)
    }

    fn exchange(&mut self, exchange: &Exchange) -> Result<(), String> {
        let command = exchange.command.replace("cargo run --release -- ", "ratekeeper ");
        let words: Vec<&str> = command.trim_end_matches(['&', ' ']).split_whitespace().collect();
        let printed = match words.as_slice() {
            ["ratekeeper", "demo" | "serve", arguments @ ..] if !arguments.contains(&"--print-config") => {
                self.server = None;
                let arguments: Vec<&str> =
                    words[1..].iter().copied().take_while(|word| *word != "#").collect();
                let server = Server::start(&arguments, Some(self.folder.path()));
                let banner = server.banner.clone();
                self.server = Some(server);
                banner
            }
            // The tests would run themselves without end, and builds are not what a page is tested for.
            ["./test" | ".ci/run" | "cargo" | "docker", ..] => return Ok(()),
            ["go", ..] if !self.shell("go version").starts_with("go version") => {
                // Past the capture of the test's output: whoever reads it sees what was not tried.
                let _ = writeln!(std::io::stderr(), "not run, since there is no go: {command}");
                return Ok(());
            }
            _ => {
                for (name, text) in &self.shown {
                    self.folder.file(name, self.rewritten(text));
                }
                self.shell(&command)
            }
        };
        let expected: Vec<String> = exchange.expected.iter().map(|line| self.rewritten(line)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let printed: Vec<&str> = printed.lines().collect();
        if expected.is_empty() || lines_match(&expected, &printed) {
            return Ok(());
        }
        Err(format!(
            "line {}: $ {}\nexpected\n{}\ngot\n{}",
            exchange.line,
            exchange.command,
            expected.join("\n"),
            printed.join("\n")
        ))
    }

    /// What a command prints, on stdout and stderr together as on a terminal.
    fn shell(&self, command: &str) -> String {
        let binary = Path::new(RATEKEEPER).parent().expect("the binary is in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec 2>&1\n{}", self.rewritten(command))])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", binary.display()))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("RATEKEEPER_CONFIG")
            .env_remove("RATEKEEPER_SERVER");
        // What a page asks without an address, by command or by script, is meant for the server it has started.
        if let Some(server) = &self.server {
            bash.env("RATEKEEPER_SERVER", format!("http://{}", server.address))
                .env("RATEKEEPER_ADMIN", format!("http://{}", server.admin));
        }
        let output = run_command(bash, b"");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn rewritten(&self, text: &str) -> String {
        match &self.server {
            Some(server) => {
                text.replace(WRITTEN_ADDRESS, &server.address).replace(WRITTEN_ADMIN, &server.admin)
            }
            None => text.to_owned(),
        }
    }

    fn configuration(&self, block: &Block<'_>) -> Result<(), String> {
        let text = block.lines.join("\n") + "\n";
        let (_, stderr, code) = told(&run(&["validate", "-"], &text));
        if code != 0 {
            return Err(format!("line {}: this configuration is refused\n{stderr}", block.line));
        }
        self.folder.file("ratekeeper.yaml", text);
        Ok(())
    }

    fn syntax(&self, block: &Block<'_>) -> Result<(), String> {
        let mut bash = Command::new("bash");
        bash.arg("-n");
        let (_, stderr, code) = told(&run_command(bash, block.lines.join("\n").as_bytes()));
        if code == 0 { Ok(()) } else { Err(format!("line {}: {stderr}", block.line)) }
    }
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected {
        [] => printed.is_empty(),
        ["…", rest @ ..] => (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..])),
        [line, rest @ ..] => {
            let fits =
                printed.first().is_some_and(|printed| line_matches(line.trim_end(), printed.trim_end()));
            fits && lines_match(rest, &printed[1..])
        }
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return expected == printed };
    let Some(mut left) = printed.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('…').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(found) = left.find(piece) else { return false };
        left = &left[found + piece.len()..];
    }
    left.ends_with(end)
}

#[test]
fn the_readme_does_what_it_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(&file).expect("the repository has a README.md");
    let commands = Page::run(&text).unwrap_or_else(|wrong| panic!("README.md, {wrong}"));
    assert!(commands > 0, "the README shows no command");
}

#[test]
fn the_pages_of_docs_do_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut commands = 0;
    for entry in std::fs::read_dir(&folder).expect("the repository has pages") {
        let file = entry.expect("a page").path();
        if file.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&file).expect("UTF-8");
            commands += Page::run(&text).unwrap_or_else(|wrong| panic!("{}, {wrong}", file.display()));
        }
    }
    assert!(commands > 0, "the pages show no command");
}

const PAGE: &str = r#"
```console
$ cargo run --release -- demo
ratekeeper …   configuration built in (sha …)   5 policies, 7 limits   …
  check  http://127.0.0.1:8080/v1/check
…
$ for i in $(seq 11); do curl -s 127.0.0.1:8080/v1/check -d '{"policy":"login","key":"203.0.113.9"}'; echo; done | tail -2
{"allowed":true,"policy":"login","limit":"tries","remaining":0,"retry_after_ms":0,…,"source":"exact",…}
{"allowed":false,"reason":"limited","policy":"login","limit":"tries","remaining":0,"retry_after_ms":5…,…}
```
```yaml
version: 1
policies:
  - name: sms
    key: [header:x-user]
    missing_key: reject
    limits: [{ name: code, algorithm: fixed-window, limit: 1/minute, align: first-request }]
```
```console
$ ratekeeper simulate --policy sms --trace - <<'T'
{"t_us":0,"key":"u1"}
{"t_us":59999999,"key":"u1"}
T
{"t_us":0,"allowed":true,…}
{"t_us":59999999,"allowed":false,"reason":"limited","remaining":0,"retry_after_us":1,…}
$ ratekeeper validate \
    ratekeeper.yaml
ratekeeper.yaml: 1 policy, 1 limit, 0 errors, 0 warnings
$ cargo run --release -- serve --config ratekeeper.yaml &
…
  policy sms   …
…
$ curl -s 127.0.0.1:8080/v1/check -d '{"policy":"sms","key":"u1"}' | head -c 15
{"allowed":true
$ ratekeeper check sms u1
DENIED   sms · u1 · cost 1     code 0 of 1 left     again in …     reason: limited
```
```sh
cargo install --path crates/ratekeeper-server
```
"#;

#[test]
fn a_page_is_run_as_it_stands() {
    assert_eq!(Page::run(PAGE), Ok(7));
}

#[test]
fn a_file_that_a_page_shows_is_there_for_its_commands() {
    let page = "```python\n# hello.py\nprint('hello')\n```\n```console\n$ python3 hello.py\nhello\n```\n";
    assert_eq!(Page::run(page), Ok(1));
    let page = page.replace("# hello.py", "# says hello");
    assert!(Page::run(&page).expect_err("there is no such file").contains("hello.py"));
}

#[test]
fn a_page_that_says_something_else_fails_with_its_line() {
    for (right, not) in [
        ("5 policies, 7 limits", "6 policies, 7 limits"),
        ("\"allowed\":true,…}", "\"allowed\":false,…}"),
        ("limits: [{ name: code", "limits: [{ nam: code"),
        ("--path crates/ratekeeper-server", "\"--path"),
        ("0 errors, 0 warnings", "0 errors, 1 warning"),
    ] {
        let wrong = Page::run(&PAGE.replace(right, not)).expect_err(not);
        assert!(wrong.starts_with("line "), "{wrong}");
    }
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    assert!(lines_match(&["a…c", "…", "z"], &["abc", "x", "y", "z"]));
    assert!(lines_match(&["a…b…c"], &["a1b2c"]));
    assert!(lines_match(&["…"], &[]));
    assert!(!lines_match(&["a…c"], &["abd"]));
    assert!(!lines_match(&["a"], &["a", "b"]));
    assert!(!lines_match(&["a", "b"], &["a"]));
}
