//! The header fields of answers with a decision, and the texts that are the same in all of them.

use std::time::Duration;

use ratekeeper_core::{
    LimitItem, Reason, Verdict, XRateLimit, policy_field, retry_after_seconds, write_decimal,
};
use ratekeeper_policy::{Dialect, Headers, Jitter, Policy, PolicyLimit, Stretch, XRateLimit as XOption};

use crate::digits::millis;
use crate::live::Live;
use crate::transport::http::reply::Reply;
use crate::transport::http::service::Decided;

/// What is the same in all answers by the same limits of a policy, written once.
pub(crate) struct Texts {
    pub(super) headers: Headers,
    /// The value of `RateLimit-Policy` where all of them take part.
    pub(crate) policy_field: String,
    pub(super) limits: Vec<LimitTexts>,
}

pub(super) struct LimitTexts {
    pub(super) item: LimitItem,
    /// Its object up to the first number of now.
    pub(super) object: String,
}

impl Texts {
    pub(crate) fn new(policy: &Policy, limits: &[PolicyLimit]) -> Self {
        let texts = |limit: &PolicyLimit| {
            let (numbers, name) = (limit.named.limit(), limit.named.name());
            let object = format!(
                "{{\"policy\":\"{}\",\"name\":\"{name}\",\"capacity\":{},\"window_ms\":{},\"remaining\":",
                policy.name(),
                numbers.capacity(),
                millis(numbers.refill()),
            );
            LimitTexts { item: LimitItem::new(policy.name(), name, numbers), object }
        };
        let limits: Vec<LimitTexts> = limits.iter().map(texts).collect();
        let policy_field = policy_field(limits.iter().map(|limit| &limit.item));
        Self { headers: policy.headers(), policy_field, limits }
    }
}

/// The fields of one answer: what its policies want to be told.
pub(super) struct Fields<'f> {
    live: &'f Live,
    decided: &'f Decided<'f>,
    stretch: Stretch,
}

impl<'f> Fields<'f> {
    pub(super) const fn new(live: &'f Live, decided: &'f Decided<'f>) -> Self {
        Self { live, decided, stretch: Stretch::NONE }
    }

    /// The same for a refusal that is said in the status: only there a share of the wait is drawn, once.
    pub(super) fn of_refusal(live: &'f Live, decided: &'f Decided<'f>) -> Self {
        let mut fields = Self::new(live, decided);
        let jitter = fields.binding().map_or(Jitter::NONE, |texts| texts.headers.retry_jitter);
        fields.stretch = jitter.draw(live.chance());
        fields
    }

    /// A wait as it is told: as long as it is, or longer by the share that this answer has drawn. Never shorter.
    pub(super) fn told(&self, wait: Duration) -> Duration {
        self.stretch.of(wait)
    }

    /// The texts of each limit that was asked, in the order of the decision's. Who could not be asked has no numbers.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&'f LimitTexts, &'f Verdict)> + Clone {
        self.items().map(|(_, limit, verdict)| (limit, verdict))
    }

    /// The same with the texts of each limit's policy.
    fn items(&self) -> impl Iterator<Item = (&'f Texts, &'f LimitTexts, &'f Verdict)> + Clone {
        let asking = self.decided.asking;
        let verdicts = self.decided.outcome.decision.as_ref().map_or(&[][..], |decision| decision.limits());
        let asked = asking.places().iter().zip(verdicts).filter(|(_, verdict)| verdict.has_numbers());
        asked.filter_map(|(place, verdict)| {
            let texts = self.live.texts(asking.applied().get(place.applied)?);
            Some((texts, texts.limits.get(place.limit)?, verdict))
        })
    }

    /// The texts of the policy whose limit is the binding one.
    fn binding(&self) -> Option<&'f Texts> {
        let asking = self.decided.asking;
        let place = asking.places().get(self.decided.outcome.decision.as_ref()?.binding)?;
        Some(self.live.texts(asking.applied().get(place.applied)?))
    }

    /// `RateLimit` and `RateLimit-Policy`: of the limits of those policies that want them, or of all if `always`. Not
    /// without a decision.
    pub(super) fn write_ratelimit(&self, always: bool, reply: &mut Reply) {
        if !self.all_were_asked() {
            return self.write_ratelimit_of(|texts| always || texts.headers.ratelimit, reply);
        }
        let is_wanted = |texts: &Texts| always || texts.headers.ratelimit;
        let mut parts = self.decided.asking.by_policy();
        match (parts.next(), parts.next()) {
            // Most requests meet one policy, which has its text ready.
            (Some((applied, range)), None) if range.len() == self.live.texts(applied).limits.len() => {
                let texts = self.live.texts(applied);
                if !is_wanted(texts) {
                    return;
                }
                reply.field("ratelimit-policy", texts.policy_field.as_bytes());
            }
            _ => return self.write_ratelimit_of(is_wanted, reply),
        }
        reply.field_if("ratelimit", |field| self.write_items(is_wanted, field));
    }

    /// The same of those limits that were asked.
    fn write_ratelimit_of(&self, is_wanted: impl Fn(&Texts) -> bool, reply: &mut Reply) {
        let wanted = self.items().filter(|(texts, ..)| is_wanted(texts));
        if wanted.clone().next().is_none() {
            return;
        }
        let field = policy_field(wanted.map(|(_, limit, _)| &limit.item));
        reply.field("ratelimit-policy", field.as_bytes());
        reply.field_if("ratelimit", |field| self.write_items(is_wanted, field));
    }

    /// Whether every limit has numbers.
    fn all_were_asked(&self) -> bool {
        let decision = self.decided.outcome.decision.as_ref();
        decision.is_none_or(|decision| decision.limits().iter().all(Verdict::has_numbers))
    }

    /// The items of the limits of wanted policies, of a refusal those that refuse for now; whether there is any.
    fn write_items(&self, is_wanted: impl Fn(&Texts) -> bool, field: &mut Vec<u8>) -> bool {
        let passes = self.limits().all(|(_, verdict)| verdict.allowed());
        let items = self.items().filter(|(_, _, verdict)| verdict.allowed() == passes);
        let mut written = false;
        for (texts, limit, verdict) in items.filter(|(texts, ..)| is_wanted(texts)) {
            let wait = if passes { Some(verdict.more_after()) } else { verdict.retry_after() };
            // No number of seconds would be true of what can never pass.
            let Some(wait) = wait.map(|wait| if passes { wait } else { self.told(wait) }) else { continue };
            if written {
                field.extend_from_slice(b", ");
            }
            limit.item.write_numbers(field, verdict.remaining(), wait);
            if texts.headers.dialect == Dialect::Both {
                field.extend_from_slice(b";a=");
                write_decimal(field, verdict.remaining());
                field.extend_from_slice(b";w=");
                write_decimal(field, retry_after_seconds(wait));
            }
            written = true;
        }
        written
    }

    /// The older fields, of the binding limit.
    pub(super) fn write_x_ratelimit(&self, reply: &mut Reply) {
        let (Some(texts), Some(decision)) = (self.binding(), &self.decided.outcome.decision) else { return };
        let Some(verdict) = decision.limits().get(decision.binding) else { return };
        if decision.reason == Some(Reason::StoreUnavailable) || !verdict.has_numbers() {
            // There is no state that these would be the numbers of.
            return;
        }
        let numbers = match texts.headers.x_ratelimit {
            XOption::Off => return,
            XOption::Unix => XRateLimit::unix(verdict, self.live.now()),
            XOption::Delta => XRateLimit::delta(verdict),
        };
        reply.number("x-ratelimit-limit", numbers.limit);
        reply.number("x-ratelimit-remaining", numbers.remaining);
        reply.number("x-ratelimit-reset", numbers.reset);
    }
}
