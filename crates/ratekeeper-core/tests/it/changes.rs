//! P14: another limit for a key that is in use.

use ratekeeper_core::Algorithm;
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{changes, forward, horizon_us, nasty_rules, rules, small_rules, start_us};
use ratekeeper_testkit::product::limit;
use ratekeeper_testkit::property::check;

use crate::subject::Core;

#[test]
fn p14_a_change_keeps_what_is_used_and_gives_at_most_what_the_capacity_grew_by() {
    for (name, rules, cases) in
        [("p14_small", small_rules(), 6_000), ("p14", rules(), 4_000), ("p14_nasty", nasty_rules(), 2_000)]
    {
        let strategy = (changes(rules), start_us(), forward(), forward());
        check(name, cases, strategy, |((old, new), start, before, after)| {
            let start = start.min(horizon_us(&old));
            let change = |core: &mut Core, now| {
                let new = limit(&new, Algorithm::TokenBucket);
                core.state = new.convert(&core.limit, core.state, &core.moment(now));
                core.limit = new;
            };
            let core = Core::new(&old, false);
            claims::changes_keep_what_is_used((&old, &new), core, change, start, (&before, &after))
        });
    }
}
