//! How much is said on stderr: `-q`, `-v`, `RATEKEEPER_LOG`.

use crate::support::{Folder, Server, command, run_command, told};

const REFUSING: &str = "\
version: 1
log: { level: LEVEL }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day }] }]
";

/// What a server of a file with this level says on stderr that is told this much besides: with banner, after one
/// request that is let in and one that is not.
fn said(level: &str, flags: &[&str], variable: Option<&str>) -> String {
    let folder = Folder::new();
    let file = folder.file("ratekeeper.yaml", REFUSING.replace("LEVEL", level));
    // The port is not told by a quiet server: one that another has just left is free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = port.local_addr().expect("it is bound").to_string();
    drop(port);
    let mut command = command(&["serve", "--config", file.to_str().expect("UTF-8"), "--http", &address]);
    command.args(flags).args(["--admin", "127.0.0.1:0"]);
    if let Some(word) = variable {
        command.env("RATEKEEPER_LOG", word);
    }
    let mut server = Server::spawn_at(command, &address);
    for allowed in [true, false] {
        let answer = server.check(r#"{"policy":"p","key":"192.0.2.1"}"#);
        assert_eq!(answer.json()["allowed"], allowed);
    }
    server.signal("TERM");
    let (status, rest) = server.wait();
    assert_eq!(status.code(), Some(0));
    rest
}

#[test]
fn how_much_is_said_is_flag_then_environment_then_file() {
    for (level, flags, variable, lines) in [
        ("info", &[][..], None, true),
        ("error", &[], None, false),
        ("error", &[], Some("info"), true),
        ("error", &[], Some(""), false),
        ("info", &[], Some("error"), false),
        ("error", &["-v"], Some("error"), true),
        ("debug", &["-q"], Some("debug"), false),
    ] {
        let said = said(level, flags, variable);
        let case = format!("{level} {flags:?} {variable:?}: {said}");
        assert_eq!(said.contains(" info denied policy=p"), lines, "{case}");
        assert_eq!(said.contains(" info drain"), lines, "{case}");
        assert_eq!(said.is_empty(), flags == ["-q"], "{case}");
        assert_eq!(said.contains("Ctrl-C stops the server"), flags != ["-q"], "{case}");
    }
}

#[test]
fn a_level_that_is_none_is_bad_input_and_the_variable_is_named() {
    for (word, hint) in [("inf", "did you mean `info`?"), ("loud", "write error, warn, info or debug")] {
        for arguments in [&["demo", "--http", "127.0.0.1:0"][..], &["serve", "--config", "-", "-q"]] {
            let mut command = command(arguments);
            command.env("RATEKEEPER_LOG", word);
            let (stdout, stderr, code) = told(&run_command(command, b"version: 1\n"));
            assert_eq!((stdout.as_str(), code), ("", 2), "{stderr}");
            assert_eq!(stderr, format!("error: RATEKEEPER_LOG: `{word}` is no level: {hint}\n"));
        }
    }
}

#[test]
fn quiet_and_verbose_are_not_both() {
    let (_, stderr, code) = told(&run_command(command(&["serve", "-q", "-v"]), b""));
    assert!(code == 2 && stderr.contains("cannot be used with"), "{stderr}");
    let (stdout, stderr, code) = told(&run_command(command(&["validate", "-q", "-"]), b"version: 1\n"));
    assert_eq!((stdout.lines().count(), stderr.as_str(), code), (1, "", 0), "data is still printed");
}
