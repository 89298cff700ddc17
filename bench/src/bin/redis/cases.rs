//! What is measured.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{
    Algorithm, Ask, Check, Demand, Limit, Name, NamedLimit, RedisStore, SharedStore, Source, Store as _,
    hours,
};

use crate::Failed;
use crate::load::Sample;
use crate::plain::Plain;
use crate::server::Server;

/// A limit of so many an hour: every key keeps a state throughout, and hardly any is refused.
pub(crate) const AMOUNT: u64 = 1_000;
/// Nobody is to run into a deadline on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) const PLAIN: &str = "plain script, a call for each";
pub(crate) const OURS: &str = "SharedStore, gcra";
pub(crate) const BARE_STORE: &str = "RedisStore, gcra";
pub(crate) const TWO_OF_A_KEY: &str = "gcra and sliding-window-counter of a user";
pub(crate) const USER_AND_ALL: &str = "gcra of a user, token-bucket of everybody";
pub(crate) const QUEUE: &str = "leaky-bucket with a queue";

/// Somebody who decides.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Plain(Plain),
    Shared(SharedStore, Arc<[Asked]>),
    Redis(RedisStore, Arc<[Asked]>),
}

/// A limit, and whether it is everybody's.
pub(crate) struct Asked {
    limit: NamedLimit,
    is_global: bool,
}

pub(crate) struct Case {
    pub(crate) subject: Subject,
    pub(crate) samples: Vec<Sample>,
}

impl Case {
    pub(crate) const fn new(subject: Subject) -> Self {
        Self { subject, samples: Vec::new() }
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.subject.name
    }
}

/// The stores, for what is not measured by load.
pub(crate) struct Stores {
    pub(crate) shared: SharedStore,
}

impl Subject {
    /// Decides a request of one unit; whether it is allowed.
    pub(crate) async fn decide(&self, key: u64) -> Result<bool, Failed> {
        let (decision, asked) = match &self.way {
            Way::Plain(plain) => return plain.decide(key).await,
            Way::Shared(store, asked) => {
                let user = format!("user:{key:07}");
                let checks = checks(asked, &user);
                let demand = Demand { checks: &checks, on_error: &[], ask: Ask::Acquire };
                (store.decide(demand, PATIENCE).await?, asked)
            }
            Way::Redis(store, asked) => {
                let user = format!("user:{key:07}");
                (store.decide(&checks(asked, &user), Ask::Acquire).await?, asked)
            }
        };
        if !matches!(decision.source, Source::Exact | Source::Cached) {
            return Err(format!("{:?} decided, not the store: {:?}", decision.source, asked[0].limit).into());
        }
        Ok(decision.allowed)
    }

    /// A subject that asks one limit.
    pub(crate) fn of_limit(
        store: &SharedStore,
        name: &'static str,
        policy: &str,
        limit: Limit,
    ) -> Result<Self, Failed> {
        Ok(Self { name, way: Way::Shared(store.clone(), [asked(policy, "hour", limit)?].into()) })
    }
}

fn checks<'a>(asked: &'a [Asked], user: &'a str) -> Vec<Check<'a>> {
    let check = |asked: &'a Asked| Check {
        limit: &asked.limit,
        key: if asked.is_global { ("global", "").into() } else { user.into() },
        cost: 1,
    };
    asked.iter().map(check).collect()
}

fn asked(policy: &str, name: &str, limit: Limit) -> Result<Asked, Failed> {
    Ok(Asked { limit: NamedLimit::new(&Name::new(policy)?, Name::new(name)?, limit), is_global: false })
}

/// So many an hour by `algorithm`.
pub(crate) const fn hourly(algorithm: Algorithm) -> Limit {
    Limit::per(AMOUNT, hours(1)).algorithm(algorithm)
}

pub(crate) const fn queue() -> Limit {
    hourly(Algorithm::LeakyBucket).queue(AMOUNT - 1)
}

/// All that is measured under load, and the stores.
pub(crate) async fn subjects(server: &Server) -> Result<(Vec<Subject>, Stores), Failed> {
    let redis = RedisStore::builder(server.url().parse()?).timeout(PATIENCE).direct(true).build()?;
    let shared = SharedStore::builder(redis.clone()).build()?;
    while !shared.status().is_up {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let one = |name, asked: Vec<Asked>| Subject { name, way: Way::Shared(shared.clone(), asked.into()) };
    let gcra = || asked("api", "hour", hourly(Algorithm::Gcra));
    let everybody = Asked {
        is_global: true,
        ..asked("api", "all", Limit::per_second(1_000_000).algorithm(Algorithm::TokenBucket))?
    };
    let mut subjects = vec![
        Subject { name: PLAIN, way: Way::Plain(Plain::connect(&server.url()).await?) },
        one(OURS, vec![gcra()?]),
        Subject { name: BARE_STORE, way: Way::Redis(redis.clone(), [gcra()?].into()) },
        one(TWO_OF_A_KEY, vec![gcra()?, asked("api", "fair", hourly(Algorithm::SlidingWindowCounter))?]),
        one(USER_AND_ALL, vec![gcra()?, everybody]),
    ];
    for algorithm in Algorithm::ALL {
        subjects.push(Subject::of_limit(&shared, algorithm.name(), algorithm.name(), hourly(algorithm))?);
    }
    subjects.push(Subject::of_limit(&shared, QUEUE, "queue", queue())?);
    Ok((subjects, Stores { shared }))
}
