//! Sentinels that find another primary.

use ratekeeper_testkit::redis::{Sentinels, is_left_out, wait_until};

use super::{PATIENCE, bulk, status};

#[test]
fn sentinels_promote_a_replica_when_the_primary_dies() {
    if is_left_out() {
        return;
    }
    let all = Sentinels::start("limits", 1, 3);
    let ports: Vec<String> = (0..3).map(|n| format!("127.0.0.1:{}", all.sentinel(n).port())).collect();
    assert_eq!(all.url(), format!("redis+sentinel://{}/limits", ports.join(",")));
    assert_eq!(all.primary_port(), all.server(0).port());
    assert_eq!(all.primary().command(&["SET", "a", "b"]), status("OK"));
    wait_until("the replica has it", PATIENCE, || all.server(1).command(&["GET", "a"]) == bulk("b"));
    assert!(all.server(1).command(&["SET", "a", "c"]).text().starts_with("READONLY"));

    all.server(0).kill();
    let new = all.wait_for_other_primary(all.server(0).port());
    assert_eq!(new, all.server(1).port());
    assert_eq!(all.primary().command(&["SET", "a", "c"]), status("OK"));

    all.server(0).restart();
    all.wait_until_complete();
    assert_eq!(all.server(0).role().as_deref(), Some("slave"), "the old primary follows");
    assert_eq!(all.failover(), all.server(0).port(), "and is the primary again when it is told to");
}
