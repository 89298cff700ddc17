use super::*;

const GOOD: &str = "0123456789abcdef";

#[test]
fn loopback_is_what_only_this_machine_reaches() {
    for loopback in [
        "127.0.0.1:9090",
        "127.255.255.254:0",
        "[::1]:9090",
        "[::ffff:127.0.0.1]:9090",
        "localhost:9090",
        "LocalHost:1",
    ] {
        assert!(is_loopback(loopback), "{loopback}");
    }
    for exposed in [
        "0.0.0.0:9090",
        "[::]:9090",
        "128.0.0.1:9090",
        "126.255.255.255:9090",
        "[::2]:9090",
        "[::ffff:10.0.0.1]:9090",
        "10.0.0.1:9090",
        "localhost.example.com:9090",
        "my-localhost:9090",
        "ratekeeper:9090",
        // No addresses at all.
        "localhost",
        "127.0.0.1",
        "localhost:http",
        "localhost:65536",
        "127.0.0.1:",
        "",
        ":9090",
    ] {
        assert!(!is_loopback(exposed), "{exposed}");
    }
}

#[test]
fn two_spellings_of_an_address_are_one() {
    for (a, b) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[0:0:0:0:0:0:0:1]:80"),
        ("Example.com:80", "example.COM:80"),
        ("example.com:80", "example.com:080"),
    ] {
        assert!(is_same(a, b) && is_same(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("127.0.0.1:80", "127.0.0.1:81"),
        ("127.0.0.1:80", "127.0.0.2:80"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("example.com:0", "example.com:0"),
        ("example.com:80", "example.org:80"),
        ("localhost:80", "127.0.0.1:80"),
    ] {
        assert!(!is_same(a, b) && !is_same(b, a), "{a} {b}");
    }
}

#[test]
fn a_token_holds_its_bounds() {
    let token = |text: &str| Secret::token(text).map(|secret| secret.expose().to_owned());
    assert_eq!(token(GOOD), Ok(GOOD.to_owned()));
    assert!(token("AZaz09-._~+/====").is_ok());
    assert_eq!(token(&GOOD[..15]), Err(TokenError::TooShort));
    assert!(token(&"x".repeat(MAX_TOKEN_BYTES)).is_ok());
    assert_eq!(token(&"x".repeat(MAX_TOKEN_BYTES + 1)), Err(TokenError::TooLong));
    assert_eq!(token(""), Err(TokenError::Empty));
    for bad in [" ", "\n", "é", "\"", "${TOKEN}", "\0", ":", ","] {
        assert_eq!(token(&format!("{GOOD}{bad}")), Err(TokenError::NotSendable), "{bad:?}");
    }
}

#[test]
fn the_text_of_a_secret_is_never_printed() {
    let secret = Secret::token("correct-horse-battery").unwrap();
    assert_eq!(format!("{secret:?}"), "***");
    let listener = Listener { token: Some(secret), ..Listener::new(DEFAULT_ADMIN) };
    let listen = Listen { admin: Some(listener), http: None };
    let printed = format!("{listen:?} {listen:#?}");
    assert!(printed.contains("***") && !printed.contains("horse"), "{printed}");
}

#[test]
fn a_secret_matches_its_own_text_only() {
    let secret = Secret::token(GOOD).unwrap();
    assert!(secret.matches(GOOD.as_bytes()));
    for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "X123456789abcdef"] {
        assert!(!secret.matches(other.as_bytes()), "{other}");
    }
    assert_eq!(secret, Secret::token(GOOD).unwrap());
    assert_ne!(secret, Secret::token("0123456789abcdeF").unwrap());
}

#[test]
fn an_empty_variable_is_no_token_and_a_weak_one_is_an_error() {
    let given = |value: Option<&'static str>| {
        admin_token(&|name| (name == "RATEKEEPER_ADMIN_TOKEN").then(|| value.map(str::to_owned)).flatten())
    };
    assert_eq!(given(None), Ok(None));
    assert_eq!(given(Some("")), Ok(None));
    assert_eq!(given(Some("short")), Err(TokenError::TooShort));
    assert_eq!(given(Some("0123456789abcdef\n")), Err(TokenError::NotSendable));
    assert_eq!(given(Some(GOOD)), Ok(Some(Secret::token(GOOD).unwrap())));
}
