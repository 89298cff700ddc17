//! The server that answers what it is told to.

use ratekeeper_testkit::redis::{Connection, FakeRedis, Reply, raw};

use super::{bulk, is_silent, status};

#[test]
fn fake_answers_what_it_is_told_and_remembers_what_it_was_asked() {
    let fake = FakeRedis::start(&["evalsha", "GET"], |words| match words[0].as_slice() {
        b"GET" => raw::bulk(&words[1]),
        _ => raw::array(&[raw::int(-7), raw::nil(), raw::status("fine"), raw::error("ERR no")]),
    });
    let mut client = Connection::open(fake.port()).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap(), status("PONG"));
    assert_eq!(client.call(&["GET", "echo"]).unwrap(), bulk("echo"));
    let items = vec![Reply::Int(-7), Reply::Nil, status("fine"), Reply::Error("ERR no".into())];
    assert_eq!(client.call(&["EvalSha", "x", "0"]).unwrap(), Reply::Array(items));
    assert!(client.call(&["HELLO", "3"]).unwrap().text().starts_with("ERR unknown command"));
    assert_eq!(fake.count("EVALSHA"), 1);
    assert_eq!(fake.count("SET"), 0);
    let binary: &[&[u8]] = &[b"SET", b"\r\n\0", b"\xff"];
    client.call(binary).unwrap();
    assert_eq!(fake.commands().last().unwrap(), &binary);
}

#[test]
fn fake_refuses_scripts_as_a_server_in_trouble_does() {
    for error in [
        "LOADING Redis is loading the dataset in memory",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "READONLY You can't write against a read only replica.",
    ] {
        let fake = FakeRedis::refusing_scripts(error);
        let mut client = Connection::open(fake.port()).unwrap();
        assert_eq!(client.call(&["EVALSHA", "x", "0"]).unwrap().error(), Some(error));
        assert_eq!(client.call(&["EVAL", "return 1", "0"]).unwrap().error(), Some(error));
        assert_eq!(client.call(&["PING"]).unwrap(), status("PONG"));
    }
}

#[test]
fn fake_changes_its_answer_keeps_silent_and_hangs_up() {
    let fake = FakeRedis::refusing_scripts("BUSY");
    let mut client = Connection::open(fake.port()).unwrap();
    assert_eq!(client.call(&["EVAL", "", "0"]).unwrap().error(), Some("BUSY"));
    fake.set_answer(&["EVAL"], |_| raw::int(1));
    assert_eq!(client.call(&["EVAL", "", "0"]).unwrap(), Reply::Int(1));
    fake.set_answer(&["EVAL"], |_| Vec::new());
    client.send(&["EVAL", "", "0"]).unwrap();
    assert!(is_silent(&mut client));
    fake.cut();
    assert!(client.receive().is_err());
    assert_eq!(Connection::open(fake.port()).unwrap().call(&["PING"]).unwrap(), status("PONG"));
    let port = fake.port();
    drop(fake);
    assert!(Connection::open(port).is_err());
}
