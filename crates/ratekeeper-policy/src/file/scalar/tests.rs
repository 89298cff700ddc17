use super::*;

#[test]
fn plain_scalars_have_the_types_of_the_core_schema() {
    for text in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(Kind::of(text), Kind::Null, "{text}");
    }
    for text in ["true", "True", "TRUE", "false", "False", "FALSE"] {
        assert_eq!(Kind::of(text), Kind::Bool, "{text}");
    }
    for text in [
        "0", "-1", "+1", "007", "0o17", "0xfF", "1.5", ".5", "5.", "-.5e3", "1e3", "1E-3", "+1e+3", ".inf",
        "-.Inf", "+.INF", ".nan",
    ] {
        assert_eq!(Kind::of(text), Kind::Number, "{text}");
    }
    for text in [
        "yes",
        "no",
        "on",
        "off",
        "Yes",
        "OFF",
        "y",
        "n",
        "nUll",
        "tRUE",
        ".",
        "-",
        "+",
        "e3",
        ".e3",
        "1e",
        "1e+",
        "0x",
        "0xg",
        "0o8",
        "-0x1",
        "1_000",
        "1.2.3",
        "10/s",
        "-.nan",
        "inf",
        "1:30",
        "2026-01-01",
        "١",
    ] {
        assert_eq!(Kind::of(text), Kind::Text, "{text}");
    }
}
