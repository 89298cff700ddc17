use super::Secret;

#[test]
fn digest_depends_on_the_secret_and_on_nothing_else_that_changes() {
    let (one, other) = (Secret::new().expect("randomness"), Secret::new().expect("randomness"));
    assert_eq!(one.digest(&[b"key"]), one.digest(&[b"key"]));
    assert_ne!(one.digest(&[b"key"]), other.digest(&[b"key"]));
}

#[test]
fn parts_never_run_together() {
    let secret = Secret([7; 32]);
    let lists: [&[&[u8]]; 6] = [&[], &[b""], &[b"ab"], &[b"a", b"b"], &[b"", b"ab"], &[b"ab", b""]];
    for (i, one) in lists.iter().enumerate() {
        for other in &lists[i + 1..] {
            assert_ne!(secret.digest(one), secret.digest(other), "{one:?} {other:?}");
        }
    }
}

#[test]
fn digest_is_sha_256_of_what_the_documentation_says() {
    // printf '\0…\0' (32 bytes), then 1 and 3 as 8 bytes each, little-endian, then `key` | sha256sum
    let hex: String = Secret([0; 32]).digest(&[b"key"]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "110cdc2645d9b97284b6598d722dc597987ea069f4aa09f580d06bfafdc381cc");
}
