//! Stripe says itself whether to try again.

use super::{Class, generic};
use crate::hint::ResponseHead;

pub(super) fn classify(head: &ResponseHead<'_>) -> Class {
    match (head.text("stripe-should-retry"), generic(head)) {
        (_, Class::Success) => Class::Success,
        (Some("false"), _) => Class::Permanent,
        (Some("true"), Class::Permanent) => Class::Transient,
        (_, class) => class,
    }
}
