//! A layer with the policies of a file.

use std::sync::Arc;

use ratekeeper::{MemoryStore, OnFull};
use ratekeeper_policy::{Config, KeyPart, KeySpec, Policy, StoreConfig, StoreKind};

use crate::book::{Book, Page};
use crate::builder::{LayerBuilder, LayerError};
use crate::layer::{Asks, RateLimitLayer};
use crate::policies::{AnyStore, PolicySet};

/// Builds the stores of a configuration and what is constant about its policies.
pub(crate) fn build(builder: LayerBuilder, config: Config) -> Result<RateLimitLayer, LayerError> {
    let stores = config.stores.iter().map(|store| build_store(&builder, store));
    let stores = stores.collect::<Result<Vec<AnyStore>, LayerError>>()?;
    let number = |policy: &Policy| config.stores.iter().position(|store| store.name == *policy.store());
    let store_of = config.policies.iter().map(|policy| number(policy).unwrap_or_default()).collect();
    let page = |policy: &Policy| {
        let limits = policy.limits().iter().map(|limit| (limit.named.name().clone(), *limit.named.limit()));
        Page::new(policy.name().clone(), policy.headers(), limits)
    };
    let book = Book { pages: config.policies.iter().map(page).collect() };
    let needs_peer = config.policies.iter().any(looks_at_address);
    let set = PolicySet { stores, store_of, needs_peer, config };
    let has_queue =
        set.policies().iter().flat_map(Policy::limits).any(|limit| limit.named.limit().is_queue());
    let waits = has_queue || set.is_shared() || builder.options.wait.is_some();
    Ok(RateLimitLayer::new(Asks::Policies(Box::new(set)), book, builder.options, waits, needs_peer))
}

/// Whether the key of a policy or of one of its limits is the client's address.
fn looks_at_address(policy: &Policy) -> bool {
    let own = policy.limits().iter().filter_map(|limit| limit.key.as_ref());
    let parts = |spec: &KeySpec| {
        spec.alternatives().iter().any(|alternative| alternative.parts().contains(&KeyPart::Ip))
    };
    policy.key().into_iter().chain(own).any(parts)
}

fn build_store(builder: &LayerBuilder, store: &StoreConfig) -> Result<AnyStore, LayerError> {
    match &store.kind {
        StoreKind::Memory(memory) => {
            let on_full = match memory.on_full {
                ratekeeper_policy::OnFull::Share => OnFull::Share,
                ratekeeper_policy::OnFull::Deny => OnFull::Deny,
            };
            let built = MemoryStore::builder();
            let built = built.max_keys(memory.max_keys).max_bytes(memory.max_bytes).on_full(on_full);
            let built = built.max_waiting(builder.options.max_waiting);
            let built = match &builder.clock {
                Some(clock) => built.clock(Arc::clone(clock)),
                None => built,
            };
            Ok(AnyStore::Memory(built.build()?))
        }
        #[cfg(feature = "redis")]
        StoreKind::Redis(redis) => Ok(AnyStore::Shared(crate::shared::Shared::connect(redis)?)),
        #[cfg(not(feature = "redis"))]
        StoreKind::Redis(_) => Err(LayerError::NeedsRedis(store.name.clone())),
    }
}
