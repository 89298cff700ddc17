//! A refusal as an error, for code that wants `?`.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use core::time::Duration;

use crate::decision::{Decision, Verdict};
use crate::words::Reason;

/// A refusal, for code that wants `?`. It carries the decision with all its numbers.
#[derive(Clone, Debug)]
pub struct Refused {
    decision: Box<Decision>,
}

impl Refused {
    /// The decision that refused.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Why: [`Decision::reason`].
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.decision.reason
    }

    /// The wait that is told: [`Decision::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after
    }
}

impl fmt::Display for Refused {
    /// `10/s: 0 of 20 left, retry in 100ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = &self.decision;
        let Some(verdict) = decision.limits().get(decision.binding) else {
            return f.write_str("refused");
        };
        let (limit, left) = (verdict.limit(), verdict.remaining());
        write!(f, "{limit}: {left} of {} left, ", limit.capacity())?;
        match (decision.reason, decision.retry_after) {
            (Some(Reason::QueueFull), None) => f.write_str("too many wait"),
            (Some(Reason::QueueFull), Some(wait)) => write!(f, "too many wait, retry in {wait:?}"),
            (Some(Reason::Closed), _) => f.write_str("nobody may wait any more"),
            (Some(Reason::TooLate), Some(wait)) => {
                write!(f, "in {wait:?} at the earliest, which is too late")
            }
            (Some(Reason::CostExceedsCapacity), _) | (_, None) => {
                write!(f, "a cost of {} can never pass", verdict.cost())
            }
            (_, Some(wait)) => write!(f, "retry in {wait:?}"),
        }
    }
}

impl core::error::Error for Refused {}

impl Decision {
    /// `Ok` with the decision if the request is allowed.
    ///
    /// # Errors
    /// [`Refused`], with the decision, if it is not.
    pub fn into_result(self) -> Result<Self, Refused> {
        if self.allowed { Ok(self) } else { Err(Refused { decision: Box::new(self) }) }
    }

    /// A refusal for another reason than the limits' own, with their numbers: by a line that others stand in.
    #[must_use]
    pub fn refused_for(mut self, reason: Reason, retry_after: Option<Duration>) -> Refused {
        (self.allowed, self.reason, self.retry_after) = (false, Some(reason), retry_after);
        self.delay = Duration::ZERO;
        Refused { decision: Box::new(self) }
    }
}

impl Verdict {
    /// `Ok` with the verdict if the request is allowed.
    ///
    /// # Errors
    /// [`Refused`], with this verdict as a decision, if it is not.
    pub fn into_result(self) -> Result<Self, Refused> {
        if self.allowed() { Ok(self) } else { Err(Refused { decision: Box::new(Decision::of(vec![self])) }) }
    }
}
