use super::Warning;

#[test]
fn a_warning_names_every_way_to_tell_an_address() {
    let text = Warning::NoPeerAddress.to_string();
    for way in ["into_make_service_with_connect_info", "`tonic`", "TLS `.peer(…)` is needed", "`SocketAddr`"]
    {
        assert!(text.contains(way), "{way}: {text}");
    }
}
