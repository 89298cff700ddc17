use super::{base64, percent_encoded, varint};

#[test]
fn bytes_are_written_in_64_digits_without_padding() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg"),
        ("fo", "Zm8"),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg"),
        ("fooba", "Zm9vYmE"),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
    assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
}

#[test]
fn a_message_is_printable() {
    assert_eq!(percent_encoded("10 % of é\n"), "10 %25 of %C3%A9%0A");
}

#[test]
fn numbers_are_written_by_seven_bits() {
    for (number, bytes) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (300, &[172, 2])] {
        let mut out = Vec::new();
        varint(&mut out, number);
        assert_eq!(out, bytes);
    }
    let mut out = Vec::new();
    varint(&mut out, u64::MAX);
    assert_eq!(out.len(), 10);
}
