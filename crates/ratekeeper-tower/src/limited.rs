//! The decision, handed to the service behind the layer.

use ratekeeper::Decision;
use smallvec::SmallVec;

/// What the layer has decided of a request that it let through: among the extensions of the request.
///
/// ```
/// use ratekeeper_tower::Decided;
/// fn remaining<B>(request: &http::Request<B>) -> Option<u64> {
///     Some(request.extensions().get::<Decided>()?.decision()?.remaining)
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decided {
    decision: Option<Decision>,
    layers: SmallVec<[u64; 2]>,
}

impl Decided {
    /// What the innermost layer said; `None` if no limit applied to the request.
    #[must_use]
    pub const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    pub(crate) fn is_by(&self, layer: u64) -> bool {
        self.layers.contains(&layer)
    }

    /// Adds what a layer has decided.
    pub(crate) fn stamp(extensions: &mut http::Extensions, layer: u64, decision: Option<Decision>) {
        if let Some(decided) = extensions.get_mut::<Self>() {
            decided.layers.push(layer);
            decided.decision = decision.or_else(|| decided.decision.take());
        } else {
            extensions.insert(Self { decision, layers: [layer].into_iter().collect() });
        }
    }
}

/// An extractor of axum: the decision on this request.
///
/// ```
/// use ratekeeper_tower::Limited;
/// async fn handler(Limited(decision): Limited) -> String {
///     format!("{} more", decision.remaining)
/// }
/// # let _: axum::Router = axum::Router::new().route("/", axum::routing::get(handler));
/// ```
///
/// Where no layer has decided it answers 500: that is a mistake of the program. `Option<Limited>` is there for handlers
/// that are also served without one.
#[cfg(feature = "axum")]
#[derive(Clone, Debug)]
pub struct Limited(pub Decision);

/// There is no decision: the route has no layer around it, or no limit applies to it.
#[cfg(feature = "axum")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotLimited;

#[cfg(feature = "axum")]
mod extractor {
    use axum::extract::{FromRequestParts, OptionalFromRequestParts};
    use axum::response::{IntoResponse, Response};
    use http::StatusCode;
    use http::request::Parts;

    use super::{Decided, Limited, NotLimited};

    fn find(parts: &Parts) -> Option<Limited> {
        parts.extensions.get::<Decided>()?.decision().cloned().map(Limited)
    }

    impl<S: Sync> FromRequestParts<S> for Limited {
        type Rejection = NotLimited;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotLimited> {
            find(parts).ok_or(NotLimited)
        }
    }

    impl<S: Sync> OptionalFromRequestParts<S> for Limited {
        type Rejection = std::convert::Infallible;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
            Ok(find(parts))
        }
    }

    impl IntoResponse for NotLimited {
        fn into_response(self) -> Response {
            let why = "no rate limit has decided this request: lay a RateLimitLayer around the route";
            (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}
