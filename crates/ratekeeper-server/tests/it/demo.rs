//! The traffic of `demo`.

use std::time::Duration;

use crate::support::{Connection, Server, command, run_command, told};

const TRAFFIC: &str =
    "  demo traffic: 60 requests a second from 40 clients for 10 minutes; Ctrl-C stops everything\n";

/// How many decisions of a policy became `what`, over all its limits.
fn decisions(server: &Server, policy: &str, what: &str) -> u64 {
    let mut connection = Connection::open(&server.admin);
    // By address, as operators do: the listener answers no other names.
    let asked = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\n\r\n", server.admin);
    connection.send(asked.as_bytes());
    let page = connection.response().body;
    assert!(page.contains("ratekeeper_decisions_total{"), "{page}");
    let start = format!("ratekeeper_decisions_total{{policy=\"{policy}\"");
    let counts = page.lines().filter(|line| line.starts_with(&start) && line.contains(what));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Waits until this holds of a server.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        // Waits for requests that come in real time.
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}");
}

#[test]
fn demo_has_traffic_of_which_some_is_refused() {
    let mut server = Server::start(&["demo", "--seed", "7"], None);
    assert!(server.banner.ends_with(TRAFFIC), "{}", server.banner);
    wait_until("api is asked and refuses", || {
        decisions(&server, "api", "allowed") > 30 && decisions(&server, "api", "denied") > 3
    });
    // It ends at once with the server, and its refusals were not told one by one.
    server.signal("TERM");
    let (status, rest) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(rest.ends_with(" info drain\n") && rest.lines().count() == 1, "{rest}");
}

#[test]
fn demo_can_be_without_traffic() {
    let server = Server::start(&["demo", "--no-traffic"], None);
    assert!(server.banner.ends_with("  Ctrl-C stops the server\n"), "{}", server.banner);
    assert_eq!(server.check(r#"{"policy":"login","key":"203.0.113.9"}"#).status, 200);
    assert_eq!(decisions(&server, "api", "allowed") + decisions(&server, "reports", "allowed"), 0);
    let (_, stderr, code) = told(&run_command(command(&["demo", "--no-traffic", "--seed", "1"]), b""));
    assert!(code == 2 && stderr.contains("--seed"), "{stderr}");
}
