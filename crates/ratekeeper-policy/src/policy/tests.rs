use ratekeeper_core::Check;

use super::*;
use crate::Config;
use crate::named::Which;
use crate::plan::Applied;

/// `user` counts by the policy's key, `tenant` by its own, `all` by none.
const FILE: &str = "
version: 1
policies:
  - name: api
    key: [header:x-user, ip]
    limits:
      - { name: user, algorithm: gcra, limit: 10/s }
      - { name: tenant, algorithm: gcra, limit: 100/s, key: [header:x-tenant] }
      - { name: all, algorithm: gcra, limit: 1000/s, key: [global] }
  - name: shared
    key: [global]
    limits: [{ name: all, algorithm: gcra, limit: 10/s }]
  - name: flat
    key: [ip]
    limits: [{ name: a, algorithm: gcra, limit: 10/s }, { name: b, algorithm: gcra, limit: 10/minute }]
  - name: own
    limits: [{ name: a, algorithm: gcra, limit: 10/s, key: [ip] }]
";

fn config() -> Config {
    Config::parse("f", FILE.as_bytes(), &|_| None).unwrap()
}

/// Limit, part and value of each check.
fn said(applied: Result<Applied<'_>, CallError>) -> Result<Vec<(String, String)>, String> {
    use ratekeeper_core::Part;
    let text = |part: &Part<'_>| match part {
        Part::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Part::Address(address) => address.to_string(),
        part => panic!("{part:?}"),
    };
    let one = |check: &Check<'_>| {
        let parts: Vec<String> = check.key.parts().iter().map(text).collect();
        (check.limit.name().to_string(), parts.join("|"))
    };
    applied
        .map(|applied| applied.checks().map(|(_, check)| one(&check)).collect())
        .map_err(|error| error.field())
}

fn call<'a>(key: Option<&'a str>, keys: &'a [(&'a str, &'a str)]) -> Call<'a> {
    Call { key, keys, cost: 3 }
}

fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    Ok(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
}

#[test]
fn each_limit_is_asked_in_order_by_its_own_key() {
    let config = config();
    let api = config.policy("api").unwrap();
    let full = call(Some("u1"), &[("tenant", "t1")]);
    assert_eq!(
        said(api.named(&full, Which::All)),
        pairs(&[("user", "header:x-user|u1"), ("tenant", "header:x-tenant|t1"), ("all", "global|")])
    );
    assert!(api.named(&full, Which::All).unwrap().checks().all(|(_, check)| check.cost == 3));
    // An entry in `keys` counts for more than the call's key; one for a global limit counts for nothing.
    let entries = [("tenant", "t1"), ("user", "ip=203.0.113.9"), ("all", "ignored"), ("all", "")];
    assert_eq!(
        said(api.named(&call(Some("u1"), &entries), Which::All)),
        pairs(&[("user", "ip|203.0.113.9"), ("tenant", "header:x-tenant|t1"), ("all", "global|")])
    );
}

#[test]
fn a_key_that_is_needed_and_not_given_is_an_error_and_never_unlimited() {
    let config = config();
    let api = config.policy("api").unwrap();
    let long = "x".repeat(MAX_KEY_BYTES);
    let longer = "x".repeat(MAX_KEY_BYTES + 1);
    let named = format!("ip={longer}");
    for (key, keys, field) in [
        (None, &[("tenant", "t")][..], "key"),
        (Some(""), &[("tenant", "t")], "key"),
        (Some("ip="), &[("tenant", "t")], "key"),
        (Some("u"), &[], "keys/tenant"),
        (Some("u"), &[("tenant", "")], "keys/tenant"),
        (Some("u"), &[("tenant", "t"), ("user", "")], "keys/user"),
        (Some("u"), &[("tenant", longer.as_str())], "keys/tenant"),
        (Some(longer.as_str()), &[("tenant", "t")], "key"),
        (Some(named.as_str()), &[("tenant", "t")], "key"),
        (Some("u"), &[("tenant", "t"), ("tennant", "t")], "keys/tennant"),
        (Some("u"), &[("tenant", "t"), ("a/b~c", "t")], "keys/a~1b~0c"),
    ] {
        let error = api.named(&call(key, keys), Which::All).expect_err(field);
        assert_eq!(error.field(), field);
        assert!(!error.to_string().is_empty());
    }
    // The name of an alternative does not count, so that every key that a request can have can be named.
    assert!(api.named(&call(Some(&format!("ip={long}")), &[("tenant", "t")]), Which::All).is_ok());
    // At the bound, counted as given: a multi-byte character counts its bytes.
    assert!(api.named(&call(Some(&long), &[("tenant", &long)]), Which::All).is_ok());
    let wide = "é".repeat(MAX_KEY_BYTES / 2);
    assert!(api.named(&call(Some(&wide), &[("tenant", "t")]), Which::All).is_ok());
    assert!(api.named(&call(Some(&format!("{wide}x")), &[("tenant", "t")]), Which::All).is_err());
}

#[test]
fn a_policy_that_counts_everybody_together_needs_no_key() {
    let config = config();
    let shared = config.policy("shared").unwrap();
    let long = "x".repeat(MAX_KEY_BYTES + 1);
    for key in [None, Some(""), Some("anybody"), Some(long.as_str())] {
        assert_eq!(said(shared.named(&call(key, &[]), Which::All)), pairs(&[("all", "global|")]));
    }
    let api = config.policy("api").unwrap();
    for given in ["", "x", &long] {
        assert!(api.named(&call(Some("u"), &[("tenant", "t"), ("all", given)]), Which::All).is_ok());
    }
}

#[test]
fn limits_without_a_key_of_their_own_may_be_told_apart_by_keys() {
    let config = config();
    let flat = config.policy("flat").unwrap();
    let both = pairs(&[("a", "ip|x"), ("b", "ip|y")]);
    assert_eq!(said(flat.named(&call(Some("x"), &[("b", "y")]), Which::All)), both);
    assert_eq!(said(flat.named(&call(None, &[("a", "x"), ("b", "y")]), Which::All)), both);
    assert_eq!(said(flat.named(&call(None, &[("a", "x")]), Which::All)), Err("key".to_owned()));
    let own = config.policy("own").unwrap();
    assert_eq!(
        said(own.named(&call(Some("x"), &[]), Which::All)),
        Err("keys/a".to_owned()),
        "the call's key is not its own"
    );
}

#[test]
fn a_reset_forgets_what_it_names_and_never_what_everybody_shares() {
    let config = config();
    let api = config.policy("api").unwrap();
    assert_eq!(said(api.named(&call(Some("u1"), &[]), Which::Reset)), pairs(&[("user", "header:x-user|u1")]));
    let entries = [("tenant", "t1"), ("all", "x")];
    assert_eq!(
        said(api.named(&call(Some("u1"), &entries), Which::Reset)),
        pairs(&[("user", "header:x-user|u1"), ("tenant", "header:x-tenant|t1")])
    );
    assert_eq!(said(api.named(&call(None, &[]), Which::Reset)), Err("key".to_owned()));
    assert_eq!(
        said(api.named(&call(Some("u"), &[("tenant", "")]), Which::Reset)),
        Err("keys/tenant".to_owned())
    );
    assert_eq!(said(api.named(&call(Some("u"), &[("x", "t")]), Which::Reset)), Err("keys/x".to_owned()));
    // Where the policy itself counts everybody together, that is what its reset is about.
    let shared = config.policy("shared").unwrap();
    assert_eq!(said(shared.named(&call(None, &[]), Which::Reset)), pairs(&[("all", "global|")]));
    let own = config.policy("own").unwrap();
    assert_eq!(said(own.named(&call(Some("x"), &[]), Which::Reset)), pairs(&[]));
}

#[test]
fn messages_name_the_nearest_limit_and_hide_control_characters() {
    let config = config();
    let api = config.policy("api").unwrap();
    let message =
        |name: &str| api.named(&call(Some("u"), &[(name, "t")]), Which::All).expect_err(name).to_string();
    assert_eq!(message("tennant"), "the policy has no limit `tennant`: did you mean `tenant`?");
    assert_eq!(
        message("\u{1b}[2J"),
        "the policy has no limit `\\u{1b}[2J`: one of `user`, `tenant` or `all`"
    );
}

#[test]
fn a_look_sees_what_everybody_shares_and_a_reset_does_not_touch_it() {
    let config = config();
    let api = config.policy("api").unwrap();
    let by_key = call(Some("u1"), &[]);
    assert_eq!(
        said(api.named(&by_key, Which::Seen)),
        pairs(&[("user", "header:x-user|u1"), ("all", "global|")])
    );
    assert_eq!(said(api.named(&by_key, Which::Reset)), pairs(&[("user", "header:x-user|u1")]));
    let with_tenant = call(Some("u1"), &[("tenant", "t1")]);
    assert_eq!(said(api.named(&with_tenant, Which::Seen)), said(api.named(&with_tenant, Which::All)));
    assert_eq!(said(api.named(&call(None, &[]), Which::Seen)), Err("key".to_owned()));
}
