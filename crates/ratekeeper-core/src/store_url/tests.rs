use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn read(text: &str) -> StoreUrl {
    StoreUrl::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

#[test]
fn urls_of_all_kinds_are_read_and_shown_in_full() {
    use Topology::{Cluster, Sentinel, Standalone};
    for (text, topology, tls, shown) in [
        ("redis://localhost", Standalone, false, "redis://localhost:6379"),
        ("rediss://redis_1:7000/", Standalone, true, "rediss://redis_1:7000"),
        ("redis://10.0.0.5/15", Standalone, false, "redis://10.0.0.5:6379/15"),
        ("redis://[::1]", Standalone, false, "redis://[::1]:6379"),
        ("redis://[2001:DB8::0:1]:1/0", Standalone, false, "redis://[2001:db8::1]:1"),
        ("redis://a.example./2147483647", Standalone, false, "redis://a.example.:6379/2147483647"),
        (
            "redis+sentinel://a,b:1,[::2]/mymaster",
            Sentinel,
            false,
            "redis+sentinel://a:26379,b:1,[::2]:26379/mymaster",
        ),
        ("rediss+sentinel://a/m.y-M_1/3", Sentinel, true, "rediss+sentinel://a:26379/m.y-M_1/3"),
        ("redis+sentinel://a/m/", Sentinel, false, "redis+sentinel://a:26379/m"),
        ("redis+cluster://a,b,c:7001", Cluster, false, "redis+cluster://a:6379,b:6379,c:7001"),
        ("rediss+cluster://a/0", Cluster, true, "rediss+cluster://a:6379"),
        ("redis://@a", Standalone, false, "redis://a:6379"),
        ("redis://:@a", Standalone, false, "redis://a:6379"),
    ] {
        let url = read(text);
        assert_eq!((url.topology(), url.is_tls()), (topology, tls), "{text}");
        assert_eq!(url.to_string(), shown);
        assert_eq!(read(shown), url);
        assert_eq!(url.master().is_some(), topology == Sentinel);
        assert_eq!((url.username(), url.password()), (None, None), "{text}");
    }
    let url = read("redis+sentinel://u:p@[::1]:5,b/main/7");
    let hosts: Vec<(&str, u16)> = url.hosts().iter().map(|(host, port)| (host.as_str(), *port)).collect();
    assert_eq!(hosts, [("::1", 5), ("b", 26_379)]);
    assert_eq!((url.master(), url.database()), (Some("main"), 7));
}

#[test]
fn user_and_password_lose_their_escapes() {
    for (user_info, username, password) in [
        ("u", Some("u"), None),
        ("u:", Some("u"), None),
        (":p", None, Some("p")),
        ("u:p", Some("u"), Some("p")),
        ("a%40b:%2f%3A%25%c3%a9", Some("a@b"), Some("/:%é")),
        ("u:-._~!$&'()*+,;=", Some("u"), Some("-._~!$&'()*+,;=")),
    ] {
        for rest in ["redis://U@h", "redis+cluster://U@h,i", "rediss+sentinel://U@h/m"] {
            let text = rest.replace('U', user_info);
            let url = read(&text);
            assert_eq!((url.username(), url.password()), (username, password), "{text}");
        }
    }
}

#[test]
fn a_password_is_never_shown() {
    let url = read("redis://limiter:hunter2@h");
    assert_eq!(url.to_string(), "redis://limiter:***@h:6379");
    assert_eq!(format!("{url:?}"), "StoreUrl(redis://limiter:***@h:6379)");
    assert_eq!(read("redis://:hunter2@h").to_string(), "redis://:***@h:6379");
    assert_ne!(url, read("redis://limiter:other@h"));
}

#[test]
fn what_is_no_url_says_why() {
    use StoreUrlError as E;
    for (text, wrong) in [
        ("", E::Scheme),
        ("localhost:6379", E::Scheme),
        ("REDIS://h", E::Scheme),
        ("http://h", E::Scheme),
        ("unix:///run/redis.sock", E::Scheme),
        ("redis:/h", E::Scheme),
        ("redis://", E::NoHost),
        ("redis:///0", E::NoHost),
        ("redis://:6379", E::NoHost),
        ("redis://u:p@", E::NoHost),
        ("redis+cluster://a,,b", E::NoHost),
        ("redis+cluster://a,", E::NoHost),
        ("redis://a,b", E::OneHost),
        ("redis://::1", E::Host),
        ("redis://[::1", E::Host),
        ("redis://[::1]6379", E::Host),
        ("redis://[fe80::1%25eth0]", E::Host),
        ("redis://[127.0.0.1]", E::Host),
        ("redis://127.0.0.300", E::Host),
        ("redis://1.2.3", E::Host),
        ("redis://a..b", E::Host),
        ("redis://a b", E::Host),
        ("redis://h:", E::Port),
        ("redis://h:0", E::Port),
        ("redis://h:65536", E::Port),
        ("redis://h:+1", E::Port),
        ("redis://h:-1", E::Port),
        ("redis://h/x", E::Database),
        ("redis://h/+1", E::Database),
        ("redis://h/2147483648", E::Database),
        ("redis://h/1/2", E::Database),
        ("redis+cluster://h/1", E::ClusterDatabase),
        ("redis+sentinel://h", E::NoMaster),
        ("redis+sentinel://h/", E::NoMaster),
        ("redis+sentinel://h//1", E::NoMaster),
        ("redis+sentinel://h/a b", E::Master),
        ("redis+sentinel://h/m/x", E::Database),
        ("redis://h?db=1", E::Options),
        ("redis://h/1#x", E::Options),
        ("redis://u:a@b@h", E::Credentials),
        ("redis://u:a/b@h", E::Credentials),
        ("redis://u:a?b@h", E::Credentials),
        ("redis://u:a:b@h", E::Credentials),
        ("redis://u:%@h", E::Credentials),
        ("redis://u:%4@h", E::Credentials),
        ("redis://u:%+4@h", E::Credentials),
        ("redis://u:%ff@h", E::Credentials),
        ("redis://ü:p@h", E::Credentials),
        ("redis://${USER}:p@h", E::Credentials),
    ] {
        assert_eq!(StoreUrl::parse(text), Err(wrong), "{text}");
        assert!(!wrong.hint().is_empty());
    }
}

#[test]
fn the_bounds_are_taken_and_one_past_them_is_not() {
    let hosts = |number: usize| (0..number).map(|i| format!("h{i}")).collect::<Vec<String>>().join(",");
    assert_eq!(read(&format!("redis+cluster://{}", hosts(MAX_STORE_HOSTS))).hosts().len(), MAX_STORE_HOSTS);
    let many = format!("redis+cluster://{}", hosts(MAX_STORE_HOSTS + 1));
    assert_eq!(StoreUrl::parse(&many), Err(StoreUrlError::TooManyHosts));

    let long = |bytes: usize| format!("redis://:{}@h", "p".repeat(bytes - "redis://:@h".len()));
    assert_eq!(long(MAX_STORE_URL_BYTES).len(), MAX_STORE_URL_BYTES);
    read(&long(MAX_STORE_URL_BYTES));
    assert_eq!(StoreUrl::parse(&long(MAX_STORE_URL_BYTES + 1)), Err(StoreUrlError::TooLong));

    let host =
        |bytes: usize| format!("redis://{}{}", "a.".repeat((bytes - 1) / 2), "a".repeat(2 - bytes % 2));
    assert_eq!(read(&host(MAX_HOST_BYTES)).hosts()[0].0.len(), MAX_HOST_BYTES);
    assert_eq!(StoreUrl::parse(&host(MAX_HOST_BYTES + 1)), Err(StoreUrlError::Host));
    read(&format!("redis://{}", "a".repeat(MAX_LABEL_BYTES)));
    let label = format!("redis://{}", "a".repeat(MAX_LABEL_BYTES + 1));
    assert_eq!(StoreUrl::parse(&label), Err(StoreUrlError::Host));
    assert!(StoreUrlError::TooManyHosts.message().contains(&MAX_STORE_HOSTS.to_string()));
    assert!(StoreUrlError::Database.message().contains(&MAX_STORE_DATABASE.to_string()));
}

/// Texts that are nearly URLs.
fn near_url() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(SCHEMES.map(|(name, ..)| name).to_vec());
    let rest = "[a-c0-9:,@/?#%.\\[\\]é _-]{0,40}";
    (scheme, rest).prop_map(|(scheme, rest)| format!("{scheme}://{rest}"))
}

/// URLs without a password.
fn url() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        "[a-z_][a-z0-9_-]{0,9}(\\.[a-z]{1,5})?",
        any::<[u8; 4]>().prop_map(|bytes| Ipv4Addr::from(bytes).to_string()),
        any::<u128>().prop_map(|bits| format!("[{}]", Ipv6Addr::from_bits(bits))),
    ];
    let host = (host, prop::option::of(1..=u16::MAX))
        .prop_map(|(host, port)| port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")));
    let user = prop::option::of("([a-z!=.~]|%[0-7][0-9A-Fa-f]|%C3%A9){1,8}");
    let hosts = prop::collection::vec(host, 1..=MAX_STORE_HOSTS);
    let database = prop::option::of(0..=MAX_STORE_DATABASE);
    (prop::sample::select(SCHEMES.to_vec()), user, hosts, "[A-Za-z0-9._-]{1,9}", database).prop_map(
        |((scheme, topology, _), user, mut hosts, master, database)| {
            let user = user.map(|user| user + "@").unwrap_or_default();
            let database = database.filter(|_| topology != Topology::Cluster);
            let database = database.map(|database| format!("/{database}")).unwrap_or_default();
            let master = if topology == Topology::Sentinel { format!("/{master}") } else { String::new() };
            hosts.truncate(if topology == Topology::Standalone { 1 } else { MAX_STORE_HOSTS });
            format!("{scheme}://{user}{}{master}{database}", hosts.join(","))
        },
    )
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_is_read_back(text in prop_oneof![any::<String>(), near_url()]) {
        if let Ok(url) = StoreUrl::parse(&text) {
            if url.password().is_none() {
                prop_assert_eq!(StoreUrl::parse(&url.to_string()), Ok(url));
            } else {
                prop_assert!(url.to_string().contains(":***@"));
            }
        }
    }

    #[test]
    fn a_url_is_read_back_as_it_is_shown(text in url()) {
        let url = read(&text);
        prop_assert_eq!(StoreUrl::parse(&url.to_string()), Ok(url));
    }

    #[test]
    fn no_password_is_in_what_is_shown(password in "[A-Z]{6,20}") {
        let url = read(&format!("redis+cluster://u:{password}@h"));
        prop_assert_eq!(url.password(), Some(password.as_str()));
        let shown = format!("{url} {url:?}");
        prop_assert!(!shown.contains(&password));
        // Nor of those that are no URLs, whatever is wrong with them.
        for text in ["redis://u:{}/@h", "redis://{}", "{}", "redis://h:{}", "redis+sentinel://h/{} "] {
            if let Err(wrong) = StoreUrl::parse(&text.replace("{}", &password)) {
                let shown = format!("{wrong} {wrong:?} {}", wrong.hint());
                prop_assert!(!shown.contains(&password));
            }
        }
    }
}
