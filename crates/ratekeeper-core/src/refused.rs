//! A refusal as an error, for code that wants `?`.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

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
