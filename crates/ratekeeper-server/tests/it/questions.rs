//! What a question may look like: its head, its keys.

use crate::http::{FILE, assert_problem};
use crate::support::{Server, request};

#[test]
fn a_query_is_refused_and_named() {
    let server = Server::of(FILE);
    let body = br#"{"policy":"slow","key":"k"}"#;
    for query in ["status=yes", "x", "policy=api&key=k", "status=true&status=true"] {
        let mut connection = server.connect();
        connection.send(&request("POST", &format!("/v1/check?{query}"), "", body));
        let answer = connection.response();
        assert_problem(&answer, 400, &[]);
        let said =
            format!("unknown query `{query}`: only `status=true` is known, for checks and reservations");
        assert_eq!(answer.json()["detail"], said);
        connection.send(&request("POST", "/v1/check?", "", br#"{"policy":"slow","key":"l","cost":0}"#));
        assert_eq!(connection.response().status, 200, "the connection stays open");
    }
    assert_eq!(server.check(r#"{"policy":"slow","key":"k"}"#).json()["allowed"], true, "nothing was taken");
}

#[test]
fn a_request_has_one_host() {
    let server = Server::of(FILE);
    for hosts in ["", "host: a\r\nhost: b\r\n"] {
        let mut connection = server.connect();
        connection.send(format!("GET /livez HTTP/1.1\r\n{hosts}\r\n").as_bytes());
        assert_problem(&connection.response(), 400, &[]);
    }
    let mut connection = server.connect();
    connection.send(b"GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(connection.response().status, 200);
}

#[test]
fn spellings_of_an_address_are_one_key() {
    let server = Server::of(FILE);
    let remaining = |key: &str| {
        let question =
            format!(r#"{{"policy":"two","key":"{key}","keys":{{"other":"t"}},"cost":1,"peek":false}}"#);
        server.check(&question).json()["limits"][0]["remaining"].as_u64()
    };
    assert_eq!(remaining("2001:db8::1"), Some(4));
    assert_eq!(remaining("ip=2001:DB8:0::2"), Some(3));
    assert_eq!(remaining("2001:db8:0:1::1"), Some(4));
}

#[test]
fn a_key_for_a_global_limit_is_not_looked_at() {
    let server = Server::of(FILE);
    for given in [String::new(), "anybody".to_owned(), "x".repeat(2_000)] {
        let question = format!(r#"{{"policy":"api","key":"k","cost":0,"keys":{{"global":"{given}"}}}}"#);
        assert_eq!(server.check(&question).status, 200, "{}", given.len());
    }
}
