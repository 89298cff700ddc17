//! What a service manager is told, and what asks whether a server is ready.
#![cfg(unix)]

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::support::{Folder, Server, command, run, told};

/// A service manager: it hears what servers say.
struct Manager(UnixDatagram);

impl Manager {
    fn at(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has a timeout");
        Self(socket)
    }

    fn hears(&self) -> String {
        let mut message = [0; 256];
        let n = self.0.recv(&mut message).expect("the server says something");
        String::from_utf8(message[..n].to_vec()).expect("UTF-8")
    }
}

/// A server under a manager, with more of its environment.
fn server(socket: &str, more: &[(&str, &str)]) -> Server {
    let mut command = command(&["demo", "--no-traffic", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", socket).env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
    command.envs(more.iter().copied());
    Server::spawn(command)
}

#[test]
fn a_manager_is_told_when_a_server_listens_and_when_it_ends() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let manager = Manager::at(UnixDatagram::bind(&path).expect("a socket"));
    let mut server = server(path.to_str().expect("UTF-8"), &[]);
    assert_eq!(manager.hears(), "READY=1");
    assert_eq!(server.check(r#"{"policy":"sms","key":"u1"}"#).status, 200);
    server.signal("TERM");
    assert_eq!(manager.hears(), "STOPPING=1", "and no word of a watchdog that nobody asked for");
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_watchdog_hears_of_a_server_again_and_again() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let manager = Manager::at(UnixDatagram::bind(&path).expect("a socket"));
    let _server = server(path.to_str().expect("UTF-8"), &[("WATCHDOG_USEC", "100000")]);
    assert_eq!(manager.hears(), "READY=1");
    for _ in 0..3 {
        assert_eq!(manager.hears(), "WATCHDOG=1");
    }
}

#[test]
fn a_watchdog_of_another_process_is_let_be() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let manager = Manager::at(UnixDatagram::bind(&path).expect("a socket"));
    let server = server(path.to_str().expect("UTF-8"), &[("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")]);
    assert_eq!(manager.hears(), "READY=1");
    // Some time for a watchdog: each of these takes longer than its patience.
    for _ in 0..20 {
        assert_eq!(server.check(r#"{"policy":"sms","key":"u1"}"#).status, 200);
    }
    server.signal("TERM");
    assert_eq!(manager.hears(), "STOPPING=1");
}

#[cfg(target_os = "linux")]
#[test]
fn a_manager_may_be_in_no_file_system() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("ratekeeper-it-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = Manager::at(UnixDatagram::bind_addr(&address).expect("a socket"));
    let _server = server(&format!("@{name}"), &[]);
    assert_eq!(manager.hears(), "READY=1");
}

#[test]
fn a_manager_that_is_not_there_is_warned_about_and_stops_nothing() {
    let folder = Folder::new();
    let path = folder.path().join("nobody");
    let mut server = server(path.to_str().expect("UTF-8"), &[]);
    let mut line = String::new();
    server.read_line(&mut line);
    assert!(line.starts_with("warning: cannot tell the service manager of NOTIFY_SOCKET "), "{line}");
    assert_eq!(server.check(r#"{"policy":"sms","key":"u1"}"#).status, 200);
}

#[test]
fn ready_is_said_of_a_server_by_either_listener_and_of_no_other() {
    let mut server = Server::start(&["demo", "--no-traffic"], None);
    for address in [&server.address, &server.admin] {
        let url = format!("http://{address}");
        let asked = told(&run(&["check", "--ready", "--server", &url], ""));
        assert_eq!(asked, ("ready\n".to_owned(), String::new(), 0));
    }
    let url = format!("http://{}", server.address);
    server.signal("TERM");
    server.wait();
    let (stdout, stderr, code) = told(&run(&["check", "--ready", "--server", &url], ""));
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(stderr.starts_with(&format!("error: no answer from {url}: ")), "{stderr}");
}

#[test]
fn a_server_that_ends_is_not_ready() {
    let mut server = Server::start(&["demo", "--no-traffic"], None);
    let url = format!("http://{}", server.address);
    // A question whose body is awaited keeps the server from its end.
    let mut half = server.connect();
    half.send(b"POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 36\r\n\r\n");
    assert_eq!(half.head().status, 100);
    server.signal("TERM");
    let mut line = String::new();
    server.read_line(&mut line);
    assert!(line.contains(" info drain"), "{line}");
    let (stdout, stderr, code) = told(&run(&["check", "--ready", "--server", &url], ""));
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert_eq!(stderr, format!("not ready: {url} says `draining`\n"));
    half.send(br#"{"policy":"login","key":"192.0.2.1"}"#);
    assert_eq!(half.response().status, 200);
    server.wait();
}

#[test]
fn ready_asks_for_no_decision() {
    for arguments in [
        &["check", "--ready", "sms", "u1"][..],
        &["check", "--ready", "--cost", "2"],
        &["check", "--ready", "--peek"],
        &["check"],
    ] {
        let (stdout, stderr, code) = told(&run(arguments, ""));
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}: {stderr}");
        assert!(stderr.contains("Usage:"), "{stderr}");
    }
}
