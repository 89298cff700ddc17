//! One server: what it is started with, how it dies, and its clock.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ratekeeper_testkit::redis::{AppendFsync, Connection, RedisServer, Reply, Ttl, is_left_out, wait_until};

use super::{PATIENCE, bulk, status};

fn is_alive(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

#[test]
fn server_answers_and_leaves_nothing_behind() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert_eq!(server.command(&["SET", "a", "b"]), status("OK"));
    assert_eq!(server.command(&["GET", "a"]), bulk("b"));
    assert_eq!(server.command(&["GET", "none"]), Reply::Nil);
    assert_eq!(server.command(&["INCR", "n"]), Reply::Int(1));
    assert_eq!(server.command(&["MGET", "a", "none"]), Reply::Array(vec![bulk("b"), Reply::Nil]));
    assert!(server.command(&["INCR", "a"]).error().unwrap().starts_with("ERR value is not an integer"));
    assert_eq!(server.keys(), ["a", "n"]);
    assert_eq!(server.info("server")["process_id"], pid.to_string());
    assert!(is_alive(pid) && folder.is_dir());
    drop(server);
    assert!(!is_alive(pid) && !folder.exists());
}

#[test]
fn two_servers_have_two_ports() {
    if is_left_out() {
        return;
    }
    let (one, other) = (RedisServer::start(), RedisServer::start());
    assert_ne!(one.port(), other.port());
    one.command(&["SET", "a", "b"]).good();
    assert_eq!(other.command(&["GET", "a"]), Reply::Nil);
}

#[test]
fn wished_port_that_is_taken_is_an_error() {
    if is_left_out() {
        return;
    }
    let one = RedisServer::start();
    let other = std::panic::catch_unwind(|| RedisServer::builder().port(one.port()).start());
    let message = *other.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("Address already in use"), "{message}");
}

#[test]
fn killed_server_forgets_and_one_that_appends_always_does_not() {
    if is_left_out() {
        return;
    }
    let forgetful = RedisServer::start();
    let durable = RedisServer::builder().appendonly(AppendFsync::Always).start();
    for server in [&forgetful, &durable] {
        server.command(&["SET", "a", "b"]).good();
        let (pid, port) = (server.pid(), server.port());
        server.kill();
        assert!(!server.is_running() && !is_alive(pid));
        assert!(Connection::open(port).is_err(), "nobody listens");
        server.restart();
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
    }
    assert_eq!(forgetful.command(&["GET", "a"]), Reply::Nil);
    assert_eq!(durable.command(&["GET", "a"]), bulk("b"));
}

#[test]
fn stopped_server_is_silent_and_then_does_what_it_was_told() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let mut connection = server.connect().unwrap();
    server.stop();
    connection.send(&["INCR", "n"]).unwrap();
    assert!(super::is_silent(&mut connection));
    assert!(server.is_running());
    server.cont();
    assert_eq!(connection.receive().unwrap(), Reply::Int(1));
    server.stop();
    let pid = server.pid();
    drop(server);
    assert!(!is_alive(pid), "a stopped server ends, too");
}

#[test]
fn settings_reach_the_server() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder()
        .maxmemory(50_000_000, "volatile-ttl")
        .arg("--hz", "20")
        .config("timeout", "7")
        .appendonly(AppendFsync::No)
        .start();
    for (name, value) in [
        ("maxmemory", "50000000"),
        ("maxmemory-policy", "volatile-ttl"),
        ("hz", "20"),
        ("timeout", "7"),
        ("appendonly", "yes"),
        ("appendfsync", "no"),
    ] {
        assert_eq!(server.command(&["CONFIG", "GET", name]), Reply::Array(vec![bulk(name), bulk(value)]));
    }
}

#[test]
fn users_and_passwords_bind_clients_and_not_the_harness() {
    if is_left_out() {
        return;
    }
    let server =
        RedisServer::builder().password("secret").user("reader", "on >pw ~rk1:* -@all +get +auth").start();
    let mut client = Connection::open(server.port()).unwrap();
    assert!(client.call(&["PING"]).unwrap().text().starts_with("NOAUTH"));
    assert_eq!(client.call(&["AUTH", "secret"]).unwrap(), status("OK"));
    assert_eq!(client.call(&["PING"]).unwrap(), status("PONG"));
    assert_eq!(client.call(&["AUTH", "reader", "pw"]).unwrap(), status("OK"));
    assert_eq!(client.call(&["GET", "rk1:a"]).unwrap(), Reply::Nil);
    assert!(client.call(&["GET", "other"]).unwrap().text().starts_with("NOPERM"));
    assert_eq!(server.command(&["SET", "other", "1"]), status("OK"));
}

#[test]
fn times_to_live_are_read() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    server.command(&["SET", "stays", "1"]).good();
    server.command(&["SET", "goes", "1", "PXAT", "4102444800000"]).good();
    assert_eq!(server.ttl("none"), Ttl::Missing);
    assert_eq!(server.ttl("stays"), Ttl::Never);
    let Ttl::At { left_ms, unix_ms } = server.ttl("goes") else { panic!("it goes") };
    assert_eq!(unix_ms, 4_102_444_800_000);
    let now_ms = u64::try_from(server.time_us() / 1_000).unwrap();
    assert!((unix_ms - left_ms).abs_diff(now_ms) < 1_000);
}

#[test]
fn work_shows_in_the_processor_time() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let before = server.used_cpu();
    server.command(&["EVAL", "for i = 1, 3000000 do end", "0"]).good();
    let used = server.used_cpu() - before;
    assert!((1_000..10_000_000).contains(&used), "{used} µs");
}

#[test]
fn flushed_scripts_are_unknown() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let sha = server.command(&["SCRIPT", "LOAD", "return 1"]).text();
    assert_eq!(server.command(&["EVALSHA", &sha, "0"]), Reply::Int(1));
    server.flush_scripts();
    assert!(server.command(&["EVALSHA", &sha, "0"]).text().starts_with("NOSCRIPT"));
}

#[test]
fn shifted_clock_moves_time_both_ways_and_only_there() {
    if is_left_out() {
        return;
    }
    const HOUR: Duration = Duration::from_secs(3_600);
    const HOUR_US: i64 = 3_600_000_000;
    let (shifted, other) = (RedisServer::builder().skewed().start(), RedisServer::start());
    // Both were asked one after the other, on a machine that may be busy.
    let is_ahead_by = |shift_us: i64| {
        let ahead_us = shifted.time_us() - other.time_us();
        assert!((ahead_us - shift_us).abs() < 1_000_000, "{ahead_us} µs ahead instead of {shift_us}");
    };
    is_ahead_by(0);
    shifted.command(&["SET", "k", "v", "PX", "1800000"]).good();
    shifted.set_skew(HOUR, true);
    is_ahead_by(-HOUR_US);
    let Ttl::At { left_ms, .. } = shifted.ttl("k") else { panic!("the key is there") };
    assert!(left_ms > 5_000_000, "time to live follows the wall clock: {left_ms} ms left");
    shifted.set_skew(HOUR, false);
    is_ahead_by(HOUR_US);
    assert_eq!(shifted.command(&["GET", "k"]), Reply::Nil, "its end has passed");
    let script = "local t = redis.call('TIME') return tonumber(t[1])";
    let in_script = shifted.command(&["EVAL", script, "0"]).int();
    assert!((in_script - shifted.time_us() / 1_000_000).abs() <= 1, "scripts see the same clock");
    shifted.restart();
    is_ahead_by(HOUR_US);
    for shift_us in [-300_000, 300_000, 1, -1] {
        shifted.set_skew_us(shift_us);
        is_ahead_by(shift_us);
    }
    shifted.set_skew_us(0);
    is_ahead_by(0);
}

#[test]
fn server_with_a_certificate_speaks_tls() {
    if is_left_out() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("ratekeeper-redis-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-out".as_ref(), certificate.as_os_str(), "-keyout".as_ref(), key.as_os_str()])
        .output()
        .expect("openssl is there: install the package openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = RedisServer::builder().tls(&certificate, &key).start();
    assert_eq!(server.tls_url(), format!("rediss://127.0.0.1:{}", server.tls_port()));
    let ping = Command::new("redis-cli")
        .args(["--tls", "-h", "127.0.0.1", "-p", &server.tls_port().to_string(), "--cacert"])
        .arg(&certificate)
        .arg("PING")
        .output()
        .expect("redis-cli is there: install the package redis-tools");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(String::from_utf8_lossy(&ping.stdout).trim(), "PONG");
}

/// Where the test below, in a process of its own, says which server it has.
const TELL: &str = "RATEKEEPER_TELL_SERVER";

fn start_and_wait_to_be_killed(tell: &str) {
    let server = RedisServer::start();
    let text = format!("{} {}", server.pid(), server.folder().display());
    // Renamed when it is whole.
    std::fs::write(format!("{tell}.new"), text).expect("a temporary file can be written");
    std::fs::rename(format!("{tell}.new"), tell).expect("a temporary file can be renamed");
    // A stopped server hears no gentler signal.
    server.stop();
    wait_until("the parent kills this process", Duration::from_secs(60), || false);
}

#[test]
fn server_ends_when_its_test_is_killed() {
    if is_left_out() {
        return;
    }
    if let Ok(tell) = std::env::var(TELL) {
        return start_and_wait_to_be_killed(&tell);
    }
    let told = std::env::temp_dir().join(format!("ratekeeper-redis-told-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::server_ends_when_its_test_is_killed"])
        .env(TELL, &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child has a server", 4 * PATIENCE, || told.exists());
    let text = std::fs::read_to_string(&told).unwrap();
    std::fs::remove_file(&told).unwrap();
    let (pid, folder) = text.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    assert!(is_alive(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    // Where nobody collects orphans, the entry of a dead process stays.
    wait_until("the server is gone", PATIENCE, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    wait_until("its folder is gone", PATIENCE, || !PathBuf::from(folder).exists());
}
