use super::*;

fn listen(text: &str) -> Listen {
    let file = format!("version: 1\n{text}\n");
    Config::parse("t", file.as_bytes(), &|_| None).expect("a good file").listen
}

#[test]
fn what_only_a_restart_changes_is_named_field_by_field() {
    let plain = "listen: { http: '127.0.0.1:1', admin: '127.0.0.1:2' }";
    for (wanted, fields) in [
        (plain, &[][..]),
        ("listen: { http: { address: '127.0.0.1:1', deadline: 7ms }, admin: '127.0.0.1:2' }", &[]),
        ("listen: { http: '127.0.0.1:3', admin: '127.0.0.1:2' }", &["listen.http.address"]),
        ("listen: { http: '127.0.0.1:1' }", &["listen.admin"]),
        (
            "listen: { http: { address: '127.0.0.1:1', max_connections: 7, tls: { cert: c, key: k } }, admin: { address: '127.0.0.1:2', token: 0123456789abcdef } }",
            &["listen.http.tls", "listen.http.max_connections", "listen.admin.token"],
        ),
    ] {
        assert_eq!(waiting(&listen(plain), &listen(wanted)), fields, "{wanted}");
        assert_eq!(waiting(&listen(wanted), &listen(plain)), fields, "{wanted}");
    }
}

#[test]
fn addresses_of_the_command_line_are_not_those_of_the_file() {
    let addresses = Addresses { http: Some("127.0.0.1:9".to_owned()), admin: None };
    let running = addresses.over(&listen("listen: { http: '127.0.0.1:1', admin: '127.0.0.1:2' }"));
    let wanted = addresses.over(&listen("listen: { http: '127.0.0.1:3', admin: '127.0.0.1:2' }"));
    assert_eq!(waiting(&running, &wanted), [""; 0]);
}
