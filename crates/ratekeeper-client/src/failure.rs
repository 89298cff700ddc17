//! What a transport's error says about the request.

use std::error::Error;
use std::io;

use crate::decide::Failure;

/// Causes of causes that are looked at: errors that go round in a circle end here.
const MAX_CAUSES: usize = 16;

/// What an error and its causes say about whether the request was sent: a connection that could not be made
/// is [`Failure::NeverSent`]; with feature `http2`, a stream that the server refused or announced not to have looked
/// at is [`Failure::Unprocessed`]. All else is [`Failure::MaybeProcessed`].
#[must_use]
pub fn failure_of(error: &(dyn Error + 'static)) -> Failure {
    let mut next = Some(error);
    for _ in 0..MAX_CAUSES {
        let Some(cause) = next else { break };
        #[cfg(feature = "http2")]
        if let Some(h2) = cause.downcast_ref::<h2::Error>()
            && is_unprocessed(h2)
        {
            return Failure::Unprocessed;
        }
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && is_never_sent(io.kind())
        {
            return Failure::NeverSent;
        }
        next = cause.source();
    }
    Failure::MaybeProcessed
}

/// Errors that only connecting gives.
fn is_never_sent(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable
    )
}

#[cfg(feature = "http2")]
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // Streams above the last that a GOAWAY names fail with it; those below go on.
    let gone = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (refused || gone)
}
