//! Answers that are made and not sent yet. A peer that asks for much and reads nothing leaves them with us, and
//! HTTP/2 lets it ask for many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much may lie unsent over all connections of a listener: sixty-four of the longest answers twice over. Beyond
/// it nothing is decided whose answer could not be sent.
pub(super) const MAX_UNSENT_BYTES: usize = 256 * 1_024 * 1_024;

/// The bytes that lie unsent.
#[derive(Clone, Default)]
pub(super) struct Unsent(Arc<AtomicUsize>);

/// Some of them, until it is dropped.
pub(super) struct Held {
    of: Unsent,
    bytes: usize,
}

/// An answer's body that is counted until it is sent, or its peer has gone.
pub(super) struct Counted {
    body: Vec<u8>,
    _held: Held,
}

impl Unsent {
    /// Whether there is no room for one more answer.
    pub(super) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MAX_UNSENT_BYTES
    }

    /// Counts bytes that cannot be sent at once.
    pub(super) fn hold(&self, bytes: usize) -> Held {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Held { of: self.clone(), bytes }
    }

    /// Counts a body for as long as it lives.
    pub(super) fn counted(&self, body: Vec<u8>) -> Counted {
        let held = self.hold(body.capacity());
        Counted { body, _held: held }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
