//! What is the same in all answers by a limit, written once.

use std::borrow::Cow;

use http::HeaderValue;
use ratekeeper::{Limit, LimitItem, Name, Verdict, policy_field};
use ratekeeper_policy::Headers;
use smallvec::SmallVec;

/// Whose verdict it is: which policy, and which limit of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) policy: u16,
    pub(crate) limit: u16,
}

/// Whose verdicts those of a decision are, in its order.
pub(crate) type Places = SmallVec<[Place; 4]>;

/// The names and constant texts of all limits of a layer.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) pages: Vec<Page>,
}

/// Those of one policy.
pub(crate) struct Page {
    pub(crate) name: Name,
    pub(crate) headers: Headers,
    limits: Vec<Line>,
    /// The value of `RateLimit-Policy` where all of them take part.
    whole: Option<HeaderValue>,
}

struct Line {
    name: Name,
    limit: Limit,
    item: LimitItem,
}

/// A field value of our own making.
pub(crate) fn field_value(bytes: &[u8]) -> Option<HeaderValue> {
    // Names and digits are all that is ever in it.
    HeaderValue::from_bytes(bytes).ok()
}

impl Page {
    pub(crate) fn new(name: Name, headers: Headers, limits: impl IntoIterator<Item = (Name, Limit)>) -> Self {
        let line = |(limit_name, limit): (Name, Limit)| Line {
            item: LimitItem::new(&name, &limit_name, &limit),
            name: limit_name,
            limit,
        };
        let limits: Vec<Line> = limits.into_iter().map(line).collect();
        let whole = field_value(policy_field(limits.iter().map(|line| &line.item)).as_bytes());
        Self { name, headers, limits, whole }
    }
}

impl Book {
    pub(crate) fn headers(&self, place: Place) -> Headers {
        self.pages.get(usize::from(place.policy)).map(|page| page.headers).unwrap_or_default()
    }

    /// The names of a limit and its policy.
    pub(crate) fn names(&self, place: Place) -> (&str, &str) {
        let Some(page) = self.pages.get(usize::from(place.policy)) else { return ("", "") };
        let limit = page.limits.get(usize::from(place.limit)).map_or("", |line| line.name.as_str());
        (page.name.as_str(), limit)
    }

    /// The item of a verdict: by the numbers that it was decided by, which may be others for this key.
    pub(crate) fn item(&self, place: Place, verdict: &Verdict) -> Option<Cow<'_, LimitItem>> {
        let page = self.pages.get(usize::from(place.policy))?;
        let line = page.limits.get(usize::from(place.limit))?;
        Some(if *verdict.limit() == line.limit {
            Cow::Borrowed(&line.item)
        } else {
            Cow::Owned(LimitItem::new(&page.name, &line.name, verdict.limit()))
        })
    }

    /// The item of a limit by its own numbers.
    pub(crate) fn own_item(&self, place: Place) -> Option<&LimitItem> {
        let page = self.pages.get(usize::from(place.policy))?;
        page.limits.get(usize::from(place.limit)).map(|line| &line.item)
    }

    /// The value of `RateLimit-Policy` if it is that of all limits of one policy, by their own numbers.
    pub(crate) fn whole(&self, places: &[Place], verdicts: &[Verdict]) -> Option<&HeaderValue> {
        let page = self.pages.get(usize::from(places.first()?.policy))?;
        let is_whole = places.len() == page.limits.len()
            && verdicts.len() == places.len()
            && places.iter().zip(verdicts).zip(&page.limits).enumerate().all(
                |(nth, ((place, verdict), line))| {
                    place.policy == places[0].policy
                        && usize::from(place.limit) == nth
                        && verdict.has_numbers()
                        && *verdict.limit() == line.limit
                },
            );
        if is_whole { page.whole.as_ref() } else { None }
    }
}
