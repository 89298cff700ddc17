use super::*;

#[test]
fn only_names_that_nobody_can_point_here_are_own_names() {
    for own in
        ["127.0.0.1", "127.0.0.1:9090", "localhost", "LocalHost:1", "[::1]:9090", "[::1]", "10.0.0.7:9090"]
    {
        assert!(is_own_name(own.as_bytes()), "{own}");
    }
    for foreign in
        ["", "evil.example", "evil.example:9090", "localhost.evil.example", "[evil]", "127.0.0.1.evil"]
    {
        assert!(!is_own_name(foreign.as_bytes()), "{foreign}");
    }
}
