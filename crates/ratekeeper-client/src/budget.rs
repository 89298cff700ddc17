//! How many retries there may be beside the first tries, so that retrying does not become the load.

use std::time::Duration;

use ratekeeper_core::Micros;

/// A token of the budget in the parts it is counted in: whole numbers, so that 0.4 % is not 0 %, nor 1 %.
const TOKEN_MILLI: u64 = 1_000;

/// Per cent, whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Percent(pub u32);

/// What retries cost, and what earns them. Every key has a balance of its own under the same rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A retry costs a token. First tries that succeed earn a share of one, which is forgotten after one to two
    /// spans, and every span has a reserve besides.
    Share {
        earn_milli: u64,
        reserve: u32,
        span: Duration,
    },
    /// A bucket that is full at first. Retries take from it and give back what they took if they succeed.
    Bucket {
        tokens: u32,
        cost: u32,
        throttled_cost: u32,
    },
    Unlimited,
}

impl Budget {
    /// Retries for this share of the successes of first tries, and 10 more in every 10 s.
    #[must_use]
    pub const fn share(of_successes: Percent) -> Self {
        let earn_milli = of_successes.0 as u64 * TOKEN_MILLI / 100;
        Self { kind: Kind::Share { earn_milli, reserve: 10, span: Duration::from_secs(10) } }
    }

    /// The same with another reserve: `retries` in every `span`, whatever succeeds.
    #[must_use]
    pub const fn reserve(self, retries: u32, span: Duration) -> Self {
        match self.kind {
            Kind::Share { earn_milli, .. } => {
                Self { kind: Kind::Share { earn_milli, reserve: retries, span } }
            }
            Kind::Bucket { .. } | Kind::Unlimited => self,
        }
    }

    /// The numbers of the AWS SDKs: 500 tokens, a retry takes 14 of them, 5 after a refusal; it gives them back if
    /// it succeeds, and a first try that succeeds earns 1.
    #[must_use]
    pub const fn aws() -> Self {
        Self { kind: Kind::Bucket { tokens: 500, cost: 14, throttled_cost: 5 } }
    }

    /// Every retry may be made: where something else bounds them.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { kind: Kind::Unlimited }
    }

    pub(crate) fn is_usable(&self) -> bool {
        match self.kind {
            Kind::Share { span, .. } => !span.is_zero(),
            Kind::Bucket { .. } | Kind::Unlimited => true,
        }
    }
}

/// What a key has of its [`Budget`], in thousandths of a token. It is never below nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balance {
    /// Of a share: earned in the span before, and in this one. Of a bucket: what is in it, as `earned`.
    before_milli: u64,
    earned_milli: u64,
    reserve_milli: u64,
    /// The span, once the first retry or success has begun it.
    span_ends: Option<Micros>,
}

impl Balance {
    /// The balance of a key that nobody has sent to.
    #[must_use]
    pub fn new(budget: &Budget) -> Self {
        let (earned_milli, reserve_milli) = match budget.kind {
            Kind::Share { reserve, .. } => (0, u64::from(reserve) * TOKEN_MILLI),
            Kind::Bucket { tokens, .. } => (u64::from(tokens) * TOKEN_MILLI, 0),
            Kind::Unlimited => (0, 0),
        };
        Self { before_milli: 0, earned_milli, reserve_milli, span_ends: None }
    }

    /// What there is now, in thousandths of a token.
    #[must_use]
    pub const fn milli(&self) -> u64 {
        self.before_milli.saturating_add(self.earned_milli).saturating_add(self.reserve_milli)
    }

    /// Takes what a retry costs: what it was, in thousandths, or nothing and `None` if there is too little.
    pub fn withdraw(&mut self, budget: &Budget, throttled: bool, now: Micros) -> Option<u64> {
        let cost = match budget.kind {
            Kind::Share { .. } => TOKEN_MILLI,
            Kind::Bucket { throttled_cost, .. } if throttled => u64::from(throttled_cost) * TOKEN_MILLI,
            Kind::Bucket { cost, .. } => u64::from(cost) * TOKEN_MILLI,
            Kind::Unlimited => return Some(0),
        };
        self.roll(budget, now);
        if self.milli() < cost {
            return None;
        }
        // What goes first is what would be forgotten first.
        let mut owed = cost;
        for purse in [&mut self.before_milli, &mut self.earned_milli, &mut self.reserve_milli] {
            let taken = owed.min(*purse);
            *purse -= taken;
            owed -= taken;
        }
        Some(cost)
    }

    /// Notes a call that succeeded: at its first try, or after retries of which the last took `paid_milli`.
    pub fn succeeded(&mut self, budget: &Budget, paid_milli: Option<u64>, now: Micros) {
        self.roll(budget, now);
        match (budget.kind, paid_milli) {
            // A retry never earns.
            (Kind::Share { .. }, Some(_)) | (Kind::Unlimited, _) => {}
            (Kind::Share { earn_milli, .. }, None) => {
                self.earned_milli = self.earned_milli.saturating_add(earn_milli);
            }
            (Kind::Bucket { tokens, .. }, paid) => {
                let more = self.earned_milli.saturating_add(paid.unwrap_or(TOKEN_MILLI));
                self.earned_milli = more.min(u64::from(tokens) * TOKEN_MILLI);
            }
        }
    }

    fn roll(&mut self, budget: &Budget, now: Micros) {
        let Kind::Share { reserve, span, .. } = budget.kind else { return };
        let ends = *self.span_ends.get_or_insert_with(|| now.saturating_add(span));
        if now < ends {
            return;
        }
        let long_ago = ends.until(now) >= span;
        self.before_milli = if long_ago { 0 } else { self.earned_milli };
        self.earned_milli = 0;
        self.reserve_milli = u64::from(reserve) * TOKEN_MILLI;
        self.span_ends = Some(if long_ago { now } else { ends }.saturating_add(span));
    }
}
