//! What the body of `POST /v1/check` asks.

use std::borrow::Cow;

use ratekeeper_core::Ask;
use ratekeeper_sim::json::{Flaw, Object, Places};

/// A question about a policy and a key, as its caller wrote it. Nothing has been looked up yet.
pub(super) struct CheckRequest<'a> {
    pub(super) policy: Cow<'a, str>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) keys: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(super) cost: u64,
    pub(super) ask: Ask,
    pub(super) places: Places<'a>,
}

impl<'a> CheckRequest<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Vec<Flaw>> {
        if body.trim_ascii().is_empty() {
            let message = "the body is empty".to_owned();
            let hint = Some("send for example {\"policy\":\"login\",\"key\":\"203.0.113.9\"}".to_owned());
            return Err(vec![Flaw { pointer: String::new(), at: 0, len: 1, message, hint }]);
        }
        let mut object = Object::parse(body).map_err(|flaw| vec![flaw])?;
        let policy = object.text("policy");
        let key = object.text("key");
        let cost = object.whole("cost", u64::MAX).unwrap_or(1);
        let keys = object.keys("keys");
        let peek = object.flag("peek").unwrap_or(false);
        let why = "`attributes` is not available in this version: name a policy and a key";
        let by_attributes = object.refuse("attributes", why);
        if !object.has("policy") && !by_attributes {
            object.wrong(
                "policy",
                "`policy` is missing: the name of the policy that decides".to_owned(),
                None,
            );
        }
        let places = object.finish()?;
        let ask = if peek { Ask::Peek } else { Ask::Acquire };
        Ok(Self { policy: policy.unwrap_or_default(), key, keys, cost, ask, places })
    }
}
