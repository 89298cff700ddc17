//! What holds whatever is asked.

use proptest::prelude::*;
use ratekeeper::{KeyedLimiter, Limit, Limiter, ManualClock, all_of};
use ratekeeper_tower::{LimitBy as _, RateLimitLayer, header};

use crate::support::{Backend, empty, from, micros};

/// A request: whose it is, what it costs by each of three limits, and how long after the one before.
#[derive(Clone, Debug)]
struct Ask {
    user: u8,
    tenant: u8,
    costs: [u8; 3],
    after_ms: u16,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = (0..3_u8, 0..2_u8, prop::array::uniform3(0..4_u8), 0..2_000_u16);
    let ask = ask.prop_map(|(user, tenant, costs, after_ms)| Ask { user, tenant, costs, after_ms });
    prop::collection::vec(ask, 1..60)
}

/// The limits of three owners: what one limiter counts, another, and everybody's.
struct Owners {
    users: KeyedLimiter,
    tenants: KeyedLimiter,
    global: Limiter,
    clock: ManualClock,
}

impl Owners {
    fn new() -> Self {
        let clock = ManualClock::new();
        let keyed =
            |limit: Limit| KeyedLimiter::builder(limit).max_keys(100).clock(&clock).build().expect("small");
        Self {
            users: keyed(Limit::per_second(2).burst(5)),
            tenants: keyed(Limit::per_second(3).burst(7)),
            global: Limiter::builder(Limit::per_second(4).burst(9)).clock(&clock).build().expect("small"),
            clock,
        }
    }

    fn left(&self) -> Vec<u64> {
        let users = (0..3_u8).map(|user| self.users.peek(&[b'0' + user]).remaining());
        let tenants = (0..2_u8).map(|tenant| self.tenants.peek(&[b'0' + tenant]).remaining());
        users.chain(tenants).chain([self.global.peek().remaining()]).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn limits_of_different_owners_are_charged_all_or_none(asks in asks()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (owners, alone) = (Owners::new(), Owners::new());
        let cost = |name: &'static str| {
            move |parts: &http::request::Parts| parts.headers[name].to_str().expect("text").parse().expect("a number")
        };
        let layer = RateLimitLayer::builder()
            .limit(owners.users.by(header("x-user")).named("user").cost(cost("x-user-cost")))
            .limit(owners.tenants.by(header("x-tenant")).named("tenant").cost(cost("x-tenant-cost")))
            .limit(ratekeeper_tower::Rule::from(&owners.global).named("global").cost(cost("x-global-cost")))
            .build()
            .expect("good");
        let backend = Backend::default();
        for Ask { user, tenant, costs, after_ms } in asks {
            let wait = micros(u64::from(after_ms) * 1_000);
            owners.clock.advance(wait);
            alone.clock.advance(wait);
            let before = owners.left();
            let request = from("192.0.2.1")
                .header("x-user", user.to_string())
                .header("x-tenant", tenant.to_string())
                .header("x-user-cost", u16::from(costs[0]))
                .header("x-tenant-cost", u16::from(costs[1]))
                .header("x-global-cost", u16::from(costs[2]));
            let answer = runtime.block_on(backend.ask(&layer, empty(request)));
            // The library, asked the same of its own.
            let (user, tenant) = ([b'0' + user], [b'0' + tenant]);
            let checks = [
                alone.users.check(&user).cost(costs[0].into()),
                alone.tenants.check(&tenant).cost(costs[1].into()),
                alone.global.check().cost(costs[2].into()),
            ];
            let decision = all_of(&checks).expect("three").try_acquire();
            prop_assert_eq!(answer.status == 200, decision.allowed);
            prop_assert_eq!(owners.left(), alone.left());
            if !decision.allowed {
                prop_assert_eq!(owners.left(), before, "a refusal takes nothing of anybody");
                let wait = decision.retry_after.expect("the costs fit");
                let told = answer.field("retry-after").expect("a 429 says when").parse::<u64>().expect("seconds");
                prop_assert!(u128::from(told) * 1_000_000 >= wait.as_micros() && told >= 1);
                prop_assert_eq!(told, ratekeeper::retry_after_seconds(wait));
            }
        }
    }
}
