//! Questions that outlive their callers.

use std::net::IpAddr;

use ratekeeper_core::{Check, Key, NamedLimit, Part};

/// A [`Check`] that outlives its caller.
pub(super) struct OwnedCheck {
    pub(super) limit: NamedLimit,
    key: Vec<OwnedPart>,
    pub(super) cost: u64,
}

enum OwnedPart {
    Bytes(Box<[u8]>),
    Number(u64),
    Address(IpAddr),
}

impl OwnedCheck {
    pub(super) fn of(check: &Check<'_>) -> Self {
        let own = |part: &Part<'_>| match part {
            Part::Bytes(bytes) => OwnedPart::Bytes((*bytes).into()),
            Part::Number(number) => OwnedPart::Number(*number),
            Part::Address(address) => OwnedPart::Address(*address),
        };
        let key = check.key.parts().iter().map(own).collect();
        Self { limit: check.limit.clone(), key, cost: check.cost }
    }

    /// The key, in parts that a [`Key`] is made of.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let lend = |part| match part {
            &OwnedPart::Number(number) => Part::Number(number),
            &OwnedPart::Address(address) => Part::Address(address),
            OwnedPart::Bytes(bytes) => Part::Bytes(bytes),
        };
        self.key.iter().map(lend).collect()
    }

    /// The check, with its key in parts.
    pub(super) fn lend<'a>(&'a self, parts: &'a [Part<'a>]) -> Check<'a> {
        Check { limit: &self.limit, key: Key::from(parts), cost: self.cost }
    }
}
