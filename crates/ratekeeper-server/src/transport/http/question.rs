//! What the bodies of the HTTP listener ask.

use std::borrow::Cow;

use crate::transport::http::attributes::{self, Attributes};
use ratekeeper_core::Ask;
use ratekeeper_sim::json::{Flaw, Object, Places};

/// The most checks of a batch: at two or three microseconds each it keeps no other request waiting for long.
pub(super) const MAX_BATCH: usize = 1_000;

/// A question about a policy and a key, as its caller wrote it. Nothing has been looked up yet.
pub(super) struct CheckRequest<'a> {
    pub(super) policy: Cow<'a, str>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) keys: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// What the request costs; else its policies say.
    pub(super) cost: Option<u64>,
    /// The request itself, if no policy is named.
    pub(super) attributes: Option<Attributes<'a>>,
    pub(super) ask: Ask,
    pub(super) places: Places<'a>,
}

impl<'a> CheckRequest<'a> {
    /// Reads the body of a check.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        let mut object = object(body, r#"{"policy":"login","key":"203.0.113.9"}"#)?;
        let peek = object.flag("peek").unwrap_or(false);
        Self::read(object, if peek { Ask::Peek } else { Ask::Acquire })
    }

    /// Reads the body of a reservation: a check that takes.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn parse_reserve(body: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        Self::read(object(body, r#"{"policy":"llm","key":"user:42","cost":1000}"#)?, Ask::Acquire)
    }

    fn read(mut object: Object<'a>, ask: Ask) -> Result<Self, Vec<Flaw>> {
        let policy = object.text("policy");
        let key = object.text("key");
        let cost = object.whole("cost", u64::MAX);
        let keys = object.keys("keys");
        let attributes = object.object("attributes", attributes::EXAMPLE, Attributes::read);
        let describes = object.has("attributes");
        if !object.has("policy") && !describes {
            let message =
                "`policy` is missing: name the one that decides, or describe the request by `attributes`";
            object.wrong("policy", message.to_owned(), None);
        }
        for named in ["policy", "key", "keys"] {
            if describes && object.has(named) {
                let message = format!("`{named}` and `attributes` exclude each other");
                let hint = "name a policy and its key, or let them be found by what the request is";
                object.wrong(named, message, Some(hint.to_owned()));
            }
        }
        let places = object.finish()?;
        Ok(Self { policy: policy.unwrap_or_default(), key, keys, cost, attributes, ask, places })
    }
}

impl CheckRequest<'_> {
    /// The policy that it names, if it does.
    pub(super) fn named(&self) -> Option<&str> {
        self.attributes.is_none().then_some(&*self.policy)
    }
}

/// Reads the body of a batch: the texts of its checks.
///
/// # Errors
/// All that is wrong with it, but not with the checks: each of those has an answer of its own.
pub(super) fn parse_batch(body: &[u8]) -> Result<Vec<&str>, Vec<Flaw>> {
    let mut object = object(body, r#"{"checks":[{"policy":"login","key":"203.0.113.9"}]}"#)?;
    let checks = object.items("checks", MAX_BATCH);
    if !object.has("checks") {
        object.wrong("checks", "`checks` is missing: a list of what to check".to_owned(), None);
    }
    object.finish()?;
    Ok(checks)
}

/// Which reservation is meant.
pub(super) struct Ending<'a> {
    pub(super) id: Cow<'a, str>,
    /// What is to be charged in the end: nothing for a refund.
    pub(super) cost: u64,
}

impl<'a> Ending<'a> {
    /// Reads the body of a settlement.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn parse_settle(body: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        let mut object = object(body, r#"{"id":"…","cost":812}"#)?;
        let id = id(&mut object);
        let cost = object.whole("cost", u64::MAX);
        if !object.has("cost") {
            object.wrong("cost", "`cost` is missing: what it came to in the end".to_owned(), None);
        }
        object.finish()?;
        Ok(Self { id, cost: cost.unwrap_or(0) })
    }

    /// Reads the body of a refund.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn parse_refund(body: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        let mut object = object(body, r#"{"id":"…"}"#)?;
        let id = id(&mut object);
        object.finish()?;
        Ok(Self { id, cost: 0 })
    }
}

fn id<'a>(object: &mut Object<'a>) -> Cow<'a, str> {
    let id = object.text("id");
    if !object.has("id") {
        object.wrong("id", "`id` is missing: the one that the reservation answered".to_owned(), None);
    }
    id.unwrap_or_default()
}

fn object<'a>(body: &'a [u8], example: &str) -> Result<Object<'a>, Vec<Flaw>> {
    if body.trim_ascii().is_empty() {
        let message = "the body is empty".to_owned();
        let hint = Some(format!("send for example {example}"));
        return Err(vec![Flaw { pointer: String::new(), at: 0, len: 1, message, hint }]);
    }
    Object::parse(body).map_err(|flaw| vec![flaw])
}
