//! What providers mean by their answers.

mod aws;
mod discord;
mod github;
mod openai;
mod stripe;

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::hint::{Hint, ResponseHead, Rules};

/// What an answer means for trying again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Class {
    /// It is the answer.
    Success,
    /// The caller's quota is used up. The request was refused before anything was done.
    Throttled,
    /// The service as a whole has too much to do.
    Overloaded,
    /// Something failed that may not fail again.
    Transient,
    /// Asking again gives the same.
    Permanent,
    /// The provider has taken the traffic for abuse: asking again makes it worse.
    Abuse,
}

/// Decides what an answer means. The profiles are such, and so may be yours.
///
/// ```
/// use ratekeeper_client::{Class, Classify, Profile, ResponseHead};
/// struct Slow420;
/// impl Classify for Slow420 {
///     fn classify(&self, head: &ResponseHead<'_>) -> Class {
///         if head.status.as_u16() == 420 { Class::Throttled } else { Profile::Generic.classify(head) }
///     }
/// }
/// ```
pub trait Classify: Send + Sync {
    /// What this answer means.
    fn classify(&self, head: &ResponseHead<'_>) -> Class;

    /// What it says about waiting. Unless overridden, what [`Rules::GENERIC`] make of it.
    fn hint(&self, head: &ResponseHead<'_>) -> Hint {
        Rules::GENERIC.hint(head)
    }
}

/// The providers that are known, and who is not.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The provider is recognised by its host, and by nothing an answer says: others are [`Generic`](Self::Generic).
    #[default]
    Auto,
    /// The fields that are standards or nearly so, and status codes as RFC 9110 and 6585 mean them.
    Generic,
    /// GitHub: 403 may be a refusal; a secondary limit without a hint is a minute, then two.
    GitHub,
    /// OpenAI and Anthropic: limits on requests and tokens; `insufficient_quota` does not heal.
    OpenAi,
    /// Stripe: does as `Stripe-Should-Retry` says.
    Stripe,
    /// AWS: refusals are error codes, also on 400.
    Aws,
    /// Discord: a limit for each bucket, with decimals.
    Discord,
    /// Your own.
    Custom(Arc<dyn Classify>),
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "Auto",
            Self::Generic => "Generic",
            Self::GitHub => "GitHub",
            Self::OpenAi => "OpenAi",
            Self::Stripe => "Stripe",
            Self::Aws => "Aws",
            Self::Discord => "Discord",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Profile {
    /// The profile for this host, in small letters.
    #[must_use]
    pub fn of_host(host: &str) -> Self {
        let within = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        match () {
            () if within("github.com") || within("githubusercontent.com") => Self::GitHub,
            () if within("openai.com") || within("anthropic.com") => Self::OpenAi,
            () if within("stripe.com") => Self::Stripe,
            () if within("amazonaws.com") || within("amazonaws.com.cn") => Self::Aws,
            () if within("discord.com") || within("discordapp.com") => Self::Discord,
            () => Self::Generic,
        }
    }
}

impl Classify for Profile {
    fn classify(&self, head: &ResponseHead<'_>) -> Class {
        match self {
            Self::Auto => Self::of_host(head.host).classify(head),
            Self::Generic => generic(head),
            Self::GitHub => github::classify(head),
            Self::OpenAi => openai::classify(head),
            Self::Stripe => stripe::classify(head),
            Self::Aws => aws::classify(head),
            Self::Discord => generic(head),
            Self::Custom(own) => own.classify(head),
        }
    }

    fn hint(&self, head: &ResponseHead<'_>) -> Hint {
        match self {
            Self::Auto => Self::of_host(head.host).hint(head),
            Self::Generic | Self::Stripe | Self::Aws => Rules::GENERIC.hint(head),
            Self::GitHub => github::hint(head),
            Self::OpenAi => openai::RULES.hint(head),
            Self::Discord => discord::hint(head),
            Self::Custom(own) => own.hint(head),
        }
    }
}

/// What status codes mean by themselves.
fn generic(head: &ResponseHead<'_>) -> Class {
    match head.status {
        StatusCode::TOO_MANY_REQUESTS if is_abuse(head) => Class::Abuse,
        StatusCode::TOO_MANY_REQUESTS => Class::Throttled,
        StatusCode::SERVICE_UNAVAILABLE => Class::Overloaded,
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_EARLY
        | StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => Class::Transient,
        status if status.is_client_error() || status.is_server_error() => Class::Permanent,
        _ => Class::Success,
    }
}

/// Whether the problem is `abnormal-usage-detected` of the draft about RateLimit fields.
fn is_abuse(head: &ResponseHead<'_>) -> bool {
    let kind = head.json().and_then(|json| json.value("type"));
    kind.is_some_and(|kind| kind.ends_with("#abnormal-usage-detected"))
}

#[cfg(test)]
mod tests;
