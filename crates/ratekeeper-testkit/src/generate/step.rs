//! Traces with plain numbers.

use std::fmt;

use crate::oracle::{Answer, Subject};

/// One step of a trace of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When, by the clock that decides; it may step back.
    pub t_us: u64,
    /// What.
    pub op: Op,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Takes units, or is refused.
    Acquire(u64),
    /// Asks what `Acquire` would be told.
    Peek(u64),
    /// Forgets the key.
    Reset,
    /// Gives back what the step of this number took, if it took something that was not given back yet.
    Refund(usize),
    /// Gives back the last so many units of what the step of this number took and has not given back yet.
    RefundLast(usize, u64),
    /// Gives units back without a token.
    Credit(u64),
}

impl fmt::Display for Step {
    /// The line of `ratekeeper simulate`, which has no word for a part of an admission.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"t_us\":{},\"key\":\"k\"", self.t_us)?;
        match self.op {
            Op::Acquire(cost) => write!(f, ",\"cost\":{cost}}}"),
            Op::Peek(cost) => write!(f, ",\"op\":\"peek\",\"cost\":{cost}}}"),
            Op::Reset => write!(f, ",\"op\":\"reset\"}}"),
            Op::Refund(of) => write!(f, ",\"op\":\"refund\",\"of\":{of}}}"),
            Op::RefundLast(of, units) => write!(f, ",\"op\":\"refund\",\"of\":{of},\"last\":{units}}}"),
            Op::Credit(cost) => write!(f, ",\"op\":\"refund\",\"cost\":{cost}}}"),
        }
    }
}

/// A subject that walks through a trace, with the receipts it was given.
#[derive(Debug, Clone)]
pub struct Run<S: Subject> {
    /// Who is asked.
    pub subject: S,
    receipts: Vec<Option<S::Receipt>>,
}

impl<S: Subject> Run<S> {
    /// A run that has not begun.
    pub fn new(subject: S) -> Self {
        Self { subject, receipts: Vec::new() }
    }

    /// Takes one step. A reset or a refund answers what a look sees afterwards.
    pub fn step(&mut self, step: Step) -> Answer {
        let mut receipt = None;
        let answer = match step.op {
            Op::Acquire(cost) => {
                let (answer, taken) = self.subject.acquire(step.t_us, cost);
                receipt = taken;
                answer
            }
            Op::Peek(cost) => self.subject.peek(step.t_us, cost),
            Op::Reset => {
                self.subject.reset();
                self.subject.peek(step.t_us, 0)
            }
            Op::Refund(of) => {
                if let Some(receipt) = self.receipts.get_mut(of).and_then(Option::take) {
                    self.subject.refund(step.t_us, &receipt);
                }
                self.subject.peek(step.t_us, 0)
            }
            Op::RefundLast(of, units) => {
                if let Some(receipt) = self.receipts.get_mut(of)
                    && let Some(whole) = receipt.take()
                {
                    *receipt = self.subject.refund_last(step.t_us, &whole, units);
                }
                self.subject.peek(step.t_us, 0)
            }
            Op::Credit(units) => {
                self.subject.credit(step.t_us, units);
                self.subject.peek(step.t_us, 0)
            }
        };
        self.receipts.push(receipt);
        answer
    }
}
