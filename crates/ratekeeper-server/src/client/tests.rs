use super::*;

#[test]
fn a_url_names_a_host_and_a_port() {
    for (url, address) in [
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://localhost", "localhost:80"),
        ("HTTP://localhost:1/", "localhost:1"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("http://[::1]", "[::1]:80"),
    ] {
        assert_eq!(Address::of_url(url).map(|address| address.0), Ok(address.to_owned()));
    }
}

#[test]
fn what_is_no_url_of_a_server_is_refused_with_an_example() {
    for (url, why) in [
        ("", "is no URL"),
        ("127.0.0.1:8080", "is no URL"),
        ("localhost", "is no URL"),
        ("http://", "is no URL"),
        ("http://:8080", "is no URL"),
        ("http://user@h:1", "is no URL"),
        ("http://h:", "is no URL"),
        ("http://h:99999", "is no URL"),
        ("ftp://h", "is no URL"),
        ("http://h/v1/check", "without a path"),
        ("http://h?x", "without a path"),
        ("https://h", "https is not available"),
    ] {
        let wrong = Address::of_url(url).expect_err(url);
        assert!(wrong.contains(why) && wrong.contains("http://127.0.0.1:8080"), "{url}: {wrong}");
    }
}

#[test]
fn a_listener_that_is_everywhere_is_asked_on_loopback() {
    for (listener, address) in [
        ("0.0.0.0:8080", "127.0.0.1:8080"),
        ("[::]:8080", "[::1]:8080"),
        (":8080", "127.0.0.1:8080"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("localhost:8080", "localhost:8080"),
    ] {
        assert_eq!(Address::of_listener(listener).0, address);
    }
}
