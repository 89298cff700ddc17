//! Whether a store can serve: asked at the start and by those who want to know.

use std::time::Duration;

use ratekeeper_core::{Algorithm, Ask, Check, Limit, Name, NamedLimit, StoreError, Trouble};

use super::super::codec;
use super::super::plain::failed;
use super::SharedStore;

/// The oldest servers that understand what we ask: `SET … PXAT`, and the time within scripts.
const OLDEST_REDIS: [u32; 2] = [6, 2];
const OLDEST_VALKEY: [u32; 2] = [7, 2];

/// What a probe has found out about a store.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// `redis` or `valkey`, and the version.
    pub server: Option<String>,
    /// Its `maxmemory-policy`, if it tells.
    pub maxmemory_policy: Option<String>,
    /// What is not as it should be, worst first.
    pub findings: Vec<Finding>,
}

/// Something about a store that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The store cannot serve like this.
    pub is_fatal: bool,
    /// What it is.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SharedStore {
    /// Asks the servers whether they can serve: every algorithm on a key of our own, their version, and what they do
    /// when their memory is full.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if they do not answer. One that answers, but lets nobody in, is a finding.
    pub async fn probe(&self, within: Duration) -> Result<Probe, StoreError> {
        let mut probe = Probe::default();
        match self.try_all(within).await {
            Ok(()) => {}
            Err(StoreError::Failed(
                trouble @ (Trouble::Auth | Trouble::Oom | Trouble::Readonly | Trouble::Other),
            )) => {
                let said = self.status().last_error.unwrap_or_else(|| trouble.name().to_owned());
                probe.findings.push(Finding {
                    is_fatal: matches!(trouble, Trouble::Auth | Trouble::Other),
                    message: format!("it does not decide: {said}"),
                    hint: hint_for(trouble).map(str::to_owned),
                });
            }
            Err(wrong) => return Err(wrong),
        }
        probe.server = self.status().server;
        probe.findings.extend(probe.server.as_deref().and_then(too_old));
        self.look_at_memory(&mut probe, within).await;
        probe.findings.sort_by_key(|finding| !finding.is_fatal);
        Ok(probe)
    }

    /// Decides by each algorithm, and forgets it.
    async fn try_all(&self, within: Duration) -> Result<(), StoreError> {
        let exact = &self.inner.redis.exact;
        let Ok(policy) = Name::new("probe") else { return Ok(()) };
        let limits = Algorithm::ALL.iter().filter_map(|algorithm| {
            let name = Name::new(algorithm.name()).ok()?;
            Some(NamedLimit::new(&policy, name, Limit::per_minute(1_000).algorithm(*algorithm)))
        });
        let limits: Vec<NamedLimit> = limits.collect();
        // Each prober has a key of its own, or one would forget what another has just made.
        let key = format!("probe-{}", std::process::id());
        let check = |limit| Check { limit, key: key.as_str().into(), cost: 1 };
        let checks: Vec<Check<'_>> = limits.iter().map(check).collect();
        let layout = exact.layout(&checks, false)?;
        let decided = exact.decide(&layout, Ask::Acquire, within).await.map_err(failed)?;
        let back = |(seat, token): (&super::super::exact::Seat<'_>, &Option<ratekeeper_core::Token>)| {
            Some((seat.name.clone(), codec::give_back(seat.limit.limit(), token.as_ref()?)))
        };
        let back = layout.seats.iter().zip(&decided.tokens).filter_map(back).collect();
        exact.amend(back, within).await.map_err(failed)?;
        let forget = layout.seats.iter().map(|seat| (seat.name.clone(), codec::forget())).collect();
        exact.amend(forget, within).await.map_err(failed)
    }

    async fn look_at_memory(&self, probe: &mut Probe, within: Duration) {
        let command = ["CONFIG", "GET", "maxmemory-policy"].map(|word| word.as_bytes().to_vec()).to_vec();
        let link = &self.inner.redis.exact.link;
        for (node, said) in link.ask_all(command, within).await {
            let Ok(value) = said else { continue };
            let Ok(pair) = redis::from_redis_value::<Vec<String>>(value) else { continue };
            let Some(policy) = pair.get(1) else { continue };
            if !matches!(policy.as_str(), "noeviction" | "volatile-ttl") {
                probe.findings.push(Finding {
                    is_fatal: false,
                    message: format!(
                        "`maxmemory-policy` of {node} is `{policy}`: keys that are limited may be dropped"
                    ),
                    hint: Some(
                        "set it to `noeviction`, and `maxmemory` so that it is never reached".to_owned(),
                    ),
                });
            }
            probe.maxmemory_policy = Some(policy.clone());
        }
    }
}

const fn hint_for(trouble: Trouble) -> Option<&'static str> {
    match trouble {
        Trouble::Auth => Some("check `username` and `password`, and the permissions in docs/redis.md"),
        Trouble::Oom => Some("give it more memory: a full server admits by `on_store_error`"),
        Trouble::Readonly => {
            Some("it is a replica, or has too few replicas: name the primary, or the sentinels")
        }
        _ => None,
    }
}

fn too_old(server: &str) -> Option<Finding> {
    let (kind, version) = server.split_once(' ')?;
    let oldest = if kind == "valkey" { OLDEST_VALKEY } else { OLDEST_REDIS };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let is = [parts.next()?, parts.next().unwrap_or(0)];
    (is < oldest).then(|| Finding {
        is_fatal: true,
        message: format!("{server} is too old"),
        hint: Some("take Redis 6.2 or Valkey 7.2, or a later one".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::too_old;

    #[test]
    fn servers_that_lack_what_is_needed_are_told() {
        for (server, is_old) in [
            ("redis 6.0.16", true),
            ("redis 6.2.0", false),
            ("redis 7.0.15", false),
            ("valkey 7.0.1", true),
            ("valkey 7.2.5", false),
            ("redis 5", true),
            ("something", false),
        ] {
            assert_eq!(too_old(server).is_some(), is_old, "{server}");
        }
    }
}
